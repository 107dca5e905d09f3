taxon_test(tensor DEPS tensor)
