taxon_test(comm SHARDS 2 UNITY 6 DEPS comm)
