# The program's parts that need no libtorch: who this process is, and its local workers.
add_executable(launch_test app/identity_test.cc app/local_launcher_test.cc app/binding_test.cc app/clock_check_test.cc app/launch_messages_test.cc app/launch_lies.cc
                           ${CMAKE_SOURCE_DIR}/apps/taxon/binding.cc ${CMAKE_SOURCE_DIR}/apps/taxon/clock_check.cc
                           ${CMAKE_SOURCE_DIR}/apps/taxon/launch_messages.cc ${CMAKE_SOURCE_DIR}/apps/taxon/identity.cc
                           ${CMAKE_SOURCE_DIR}/apps/taxon/launcher_env.cc ${CMAKE_SOURCE_DIR}/apps/taxon/error_file.cc
                           ${CMAKE_SOURCE_DIR}/apps/taxon/local_launcher.cc ${CMAKE_SOURCE_DIR}/apps/taxon/launch_note.cc ${CMAKE_SOURCE_DIR}/apps/taxon/children.cc)
target_include_directories(launch_test PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(launch_test PRIVATE taxon_flags taxon_control nlohmann_json::nlohmann_json GTest::gmock GTest::gtest_main)
target_compile_definitions(launch_test PRIVATE CONTROL_PEER="$<TARGET_FILE:control_peer>")
add_dependencies(launch_test control_peer)
gtest_discover_tests(launch_test PROPERTIES TIMEOUT 600 LABELS launch DISCOVERY_TIMEOUT 300)
# What real ranks do when one stops, disagrees or dies.
add_executable(stuck_test app/stuck_test.cc app/asynchronous_test.cc)
foreach(part process preflight binding host core_quota launch_note)
  target_sources(stuck_test PRIVATE ${CMAKE_SOURCE_DIR}/apps/taxon/${part}.cc)
endforeach()
target_include_directories(stuck_test PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(stuck_test PRIVATE taxon_flags taxon_train taxon_control taxon_net GTest::gmock GTest::gtest_main)
target_compile_definitions(stuck_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
gtest_discover_tests(stuck_test PROPERTIES TIMEOUT 600 LABELS launch DISCOVERY_TIMEOUT 300)
# What a calibration makes of its measurements.
add_executable(calibrate_test app/cluster_fit_test.cc ${CMAKE_SOURCE_DIR}/apps/taxon/cluster_fit.cc)
target_include_directories(calibrate_test PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(calibrate_test PRIVATE taxon_flags taxon_comm GTest::gmock GTest::gtest_main)
gtest_discover_tests(calibrate_test PROPERTIES TIMEOUT 600 LABELS launch DISCOVERY_TIMEOUT 300)
# How a run gets along with others on its cores. ThreadSanitizer does not see how OpenMP orders its threads.
if(NOT TAXON_SANITIZE MATCHES thread)
  add_executable(cores_test app/core_watch_test.cc)
  foreach(part core_watch core_pressure waiting_choice openmp_waiting)
    target_sources(cores_test PRIVATE ${CMAKE_SOURCE_DIR}/apps/taxon/${part}.cc)
  endforeach()
  set_source_files_properties(${CMAKE_SOURCE_DIR}/apps/taxon/openmp_waiting.cc app/core_watch_test.cc PROPERTIES COMPILE_OPTIONS -fopenmp)
  target_include_directories(cores_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(cores_test PRIVATE taxon_flags taxon_report gomp GTest::gmock GTest::gtest_main)
  gtest_discover_tests(cores_test PROPERTIES TIMEOUT 600 LABELS launch DISCOVERY_TIMEOUT 300)
endif()
