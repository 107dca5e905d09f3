# What bench/run offers; what it measures takes machines and minutes, not tests.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME bench COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/bench/table_test.py)
set_tests_properties(bench PROPERTIES LABELS bench)
