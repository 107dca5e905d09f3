taxon_test(train SHARDS 6 UNITY 6 DEPS train sim program LIBS Threads::Threads)
