taxon_test(base DEPS base)
