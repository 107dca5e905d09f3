taxon_test(checkpoint DEPS checkpoint LIBS nlohmann_json::nlohmann_json)
