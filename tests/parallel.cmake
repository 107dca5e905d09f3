taxon_test(parallel DEPS parallel)
