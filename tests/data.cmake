taxon_test(data DEPS data LIBS ZLIB::ZLIB)
