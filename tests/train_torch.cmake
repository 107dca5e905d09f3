taxon_test(train_torch DEPS train)
