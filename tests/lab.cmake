find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_test(NAME lab COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/lab/lab_test.py)
# Exit code 77: the kernel does not give the namespaces (no root, say); the test prints why.
set_tests_properties(lab PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 LABELS lab RESOURCE_LOCK taxon_lab ENVIRONMENT "TAXON_LAB_RELAY=$<TARGET_FILE:lab_relay>")
if(TAXON_WITH_TORCH)
  add_test(NAME lab.launch COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/lab/launch_test.py)
  set_tests_properties(lab.launch PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 LABELS lab RUN_SERIAL TRUE ENVIRONMENT "TAXON_PROGRAM=$<TARGET_FILE:taxon>")
endif()
