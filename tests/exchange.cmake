taxon_test(exchange DEPS exchange sim)
