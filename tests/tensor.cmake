taxon_test(tensor UNITY 3 DEPS tensor)
