taxon_test(task UNITY 5 DEPS task)
