find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_test(NAME layers COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/layers/check.py)
add_test(NAME layers.self COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/layers/layers_test.py)
set_tests_properties(layers layers.self PROPERTIES LABELS layers TIMEOUT 600)
