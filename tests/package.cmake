# A sanitized library needs programs that are sanitized too, which users' projects know nothing of.
if(NOT TAXON_SANITIZE)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  add_test(NAME package COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/package/package_test.py
                                ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  # The longest, which begun last would leave a core with nothing to do.
  set_tests_properties(package PROPERTIES LABELS package TIMEOUT 1800 COST 1000)
endif()
