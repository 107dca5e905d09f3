taxon_test(planner DEPS planner LIBS nlohmann_json::nlohmann_json)
