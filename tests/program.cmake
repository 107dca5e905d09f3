taxon_test(program UNITY 6 DEPS program)
target_compile_definitions(program_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
