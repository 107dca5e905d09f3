taxon_test(lying DEPS train sim LIBS Threads::Threads)
