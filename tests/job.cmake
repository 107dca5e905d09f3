taxon_test(job UNITY 3 DEPS job)
target_compile_definitions(job_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
