# What documents claim.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME docs COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/docs/links_test.py)
set_tests_properties(docs PROPERTIES LABELS docs)
