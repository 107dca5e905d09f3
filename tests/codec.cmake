taxon_test(codec DEPS codec)
