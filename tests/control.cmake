# A rank as a process of its own, for the tests that kill and stop ranks.
add_executable(control_peer control/peer/main.cc)
target_link_libraries(control_peer PRIVATE taxon_flags taxon_control)
taxon_test(control UNITY 6 DEPS control LIBS nlohmann_json::nlohmann_json)
target_compile_definitions(control_test PRIVATE CONTROL_PEER="$<TARGET_FILE:control_peer>")
add_dependencies(control_test control_peer)
