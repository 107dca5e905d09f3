taxon_test(model SHARDS 5 UNITY 4 DEPS model LIBS ${TORCH_LIBRARIES})
target_compile_definitions(model_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")

taxon_test(exported FOLDER model/torch/exported UNITY 3 DEPS model LIBS ${TORCH_LIBRARIES} LibArchive::LibArchive nlohmann_json::nlohmann_json)
target_compile_definitions(exported_test PRIVATE TAXON_NETWORKS="${CMAKE_CURRENT_SOURCE_DIR}/model/torch/exported/networks")
