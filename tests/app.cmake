# End-to-end tests of the program, in Python's unittest; each class is one test of CTest.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/app/*.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${scripts})  # a new class is a new test
execute_process(COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/app/classes.py
                OUTPUT_VARIABLE classes OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" classes "${classes}")
foreach(line ${classes})
  string(REGEX MATCH "^(.*)=(.*)$" _ "${line}")
  set(case ${CMAKE_MATCH_1})
  add_test(NAME app.${case} COMMAND ${Python3_EXECUTABLE} -m unittest -v ${case}
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/app)
  set_tests_properties(app.${case} PROPERTIES TIMEOUT 1800 LABELS app ENVIRONMENT "TAXON_PROGRAM=$<TARGET_FILE:taxon>")
  if(CMAKE_MATCH_2 STREQUAL "alone")
    set_tests_properties(app.${case} PROPERTIES RUN_SERIAL TRUE)
  endif()
endforeach()
