taxon_test(faults DEPS faults)
target_compile_definitions(faults_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
