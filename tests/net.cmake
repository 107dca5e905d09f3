taxon_test(net DEPS net)
