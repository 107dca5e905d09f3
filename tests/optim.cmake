taxon_test(optim UNITY 5 DEPS optim)
