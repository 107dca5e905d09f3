taxon_test(comm DEPS comm)
