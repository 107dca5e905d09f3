# End-to-end tests of the program, in Python's unittest; each class is one test of CTest.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(case train_test.Outputs train_test.Interruption train_test.Launchers train_test.Grpc train_test.Order train_test.WrongInput faults_test.Faults
        calibrate_test.Calibrate simulate_test.Simulate simulate_test.WrongSimulation compare_test.Compare
        compare_test.CompareInBrowser compare_test.WrongCompare systems_test.Systems codecs_test.Codecs)
  add_test(NAME app.${case} COMMAND ${Python3_EXECUTABLE} -m unittest -v ${case}
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/app)
  set_tests_properties(app.${case} PROPERTIES TIMEOUT 600 LABELS app RUN_SERIAL TRUE
                       ENVIRONMENT "TAXON_PROGRAM=$<TARGET_FILE:taxon>")
endforeach()
