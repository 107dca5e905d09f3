taxon_test(launch DEPS launch LIBS nlohmann_json::nlohmann_json gomp)
target_compile_definitions(launch_test PRIVATE CONTROL_PEER="$<TARGET_FILE:control_peer>")
add_dependencies(launch_test control_peer)
if(NOT TAXON_SANITIZE MATCHES thread)  # ThreadSanitizer does not see how OpenMP orders its threads: a team of one there
  set_source_files_properties(launch/cores_test.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS -fopenmp)
endif()
