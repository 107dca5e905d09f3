taxon_test(report UNITY 10 DEPS report LIBS nlohmann_json::nlohmann_json)
target_compile_definitions(report_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
