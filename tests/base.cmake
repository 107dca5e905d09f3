taxon_test(base DEPS base)
target_compile_definitions(base_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
