taxon_test(train DEPS train sim LIBS Threads::Threads)
