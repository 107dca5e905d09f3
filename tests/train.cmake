taxon_test(train DEPS train LIBS Threads::Threads)
