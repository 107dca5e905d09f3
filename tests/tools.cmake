# What the repository's own tools promise, and that no test is forgotten.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME tools.compare_speed COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tools/compare_speed_test.py)
add_test(NAME tools.nightly COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tools/nightly_test.py)
add_test(NAME tools.registered COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tools/registered_test.py)
add_test(NAME tools.install_packages COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tools/install_packages_test.py)
add_test(NAME tools.export_fashion_mnist COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tools/export_fashion_mnist_test.py)
add_test(NAME tools.export_bible COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tools/export_bible_test.py)
add_test(NAME tools.export_mlbench COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tools/export_mlbench_test.py)
add_test(NAME tools.fetch_torch COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tools/fetch_torch_test.py)
set_tests_properties(tools.fetch_torch PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
set_tests_properties(tools.nightly tools.registered tools.install_packages tools.export_fashion_mnist tools.export_bible tools.export_mlbench tools.fetch_torch PROPERTIES LABELS tools
                     ENVIRONMENT "TAXON_BUILD=${CMAKE_BINARY_DIR};TAXON_CTEST=${CMAKE_CTEST_COMMAND}")
if(NOT TAXON_WITH_TORCH)
  set_tests_properties(tools.registered PROPERTIES DISABLED TRUE)  # a part of the tests is left out on purpose
endif()
