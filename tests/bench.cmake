# What bench/run offers; what it measures takes machines and minutes, not tests.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(name table rows closed_forms accuracies figures real_vs_virtual sizes slices group two_hosts overlap scaling time_to_accuracy slow_links only libtorch imports)
  add_test(NAME bench.${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/bench/${name}_test.py)
  set_tests_properties(bench.${name} PROPERTIES LABELS bench)
endforeach()
if(TARGET taxon)
  add_test(NAME bench.equal_work COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/bench/equal_work_test.py $<TARGET_FILE:taxon>)
  set_tests_properties(bench.equal_work PROPERTIES LABELS bench SKIP_RETURN_CODE 77 TIMEOUT 900)
endif()

# How transfers are verified: by what the sides of `transport` and `tensor-rpc` share.
set(bench_folder ${CMAKE_SOURCE_DIR}/bench)
add_executable(bench_side_test bench/tensors_test.cc ${bench_folder}/side/tensors.cc ${bench_folder}/side/steps.cc ${bench_folder}/side/side.cc
                               ${bench_folder}/side/channel.cc ${bench_folder}/side/variables.cc)
target_include_directories(bench_side_test PRIVATE ${bench_folder})
target_link_libraries(bench_side_test PRIVATE taxon_flags Threads::Threads nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS} GTest::gmock GTest::gtest_main)
taxon_run_shards(bench_side_test bench 1)
