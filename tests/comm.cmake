taxon_test(comm SHARDS 2 DEPS comm)
