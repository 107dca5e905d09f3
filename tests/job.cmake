taxon_test(job DEPS job)
target_compile_definitions(job_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
