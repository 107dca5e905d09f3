taxon_test(optim DEPS optim)
