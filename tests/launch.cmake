taxon_test(launch UNITY 5 DEPS launch LIBS nlohmann_json::nlohmann_json gomp)
target_compile_definitions(launch_test PRIVATE CONTROL_PEER="$<TARGET_FILE:control_peer>")
add_dependencies(launch_test control_peer)
