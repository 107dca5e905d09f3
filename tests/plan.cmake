taxon_test(plan UNITY 6 DEPS plan)
target_compile_definitions(plan_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
