taxon_test(faults UNITY 4 DEPS faults)
target_compile_definitions(faults_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
