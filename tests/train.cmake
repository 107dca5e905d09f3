taxon_test(train DEPS train sim program LIBS Threads::Threads)
