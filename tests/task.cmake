taxon_test(task DEPS task)
