taxon_test(parallel UNITY 6 DEPS parallel)
