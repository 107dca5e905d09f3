# End-to-end tests of the program, in Python's unittest; each class is one test of CTest.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/app/*_test.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${scripts})  # a new class is a new test
foreach(script ${scripts})
  get_filename_component(module ${script} NAME_WE)
  file(STRINGS ${script} classes REGEX "^class [A-Za-z]+\\([A-Za-z]+Test\\):")
  list(FILTER classes EXCLUDE REGEX "^class [A-Za-z]+Test\\(")  # what other classes build on
  foreach(line ${classes})
    string(REGEX REPLACE "^class ([A-Za-z]+).*" "\\1" class "${line}")
    set(case ${module}.${class})
    add_test(NAME app.${case} COMMAND ${Python3_EXECUTABLE} -m unittest -v ${case}
             WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/app)
    set_tests_properties(app.${case} PROPERTIES TIMEOUT 1800 LABELS app RUN_SERIAL TRUE
                         ENVIRONMENT "TAXON_PROGRAM=$<TARGET_FILE:taxon>")
  endforeach()
endforeach()
