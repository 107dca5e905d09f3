taxon_test(checkpoint UNITY 4 DEPS checkpoint LIBS nlohmann_json::nlohmann_json)
