find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_test(NAME lab COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/lab/lab_test.py)
# Exit code 77: the kernel does not give the namespaces (no root, say); the test prints why.
set_tests_properties(lab PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS lab)
