taxon_test(planner UNITY 5 DEPS planner LIBS nlohmann_json::nlohmann_json)
