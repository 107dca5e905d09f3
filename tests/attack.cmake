# tools/attack on programs with planted faults, and a few cases of the real one. Exit code 77: no namespaces here.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME attack.planted COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/attack/attack_test.py)
set_tests_properties(attack.planted PROPERTIES LABELS attack TIMEOUT 600 RESOURCE_LOCK taxon_lab
                     ENVIRONMENT "TAXON_PROGRAM=$<TARGET_FILE:taxon>;TAXON_BUILD=${CMAKE_BINARY_DIR}")
