taxon_test(train_torch SHARDS 8 UNITY 3 DEPS job LIBS ${TORCH_LIBRARIES})
target_include_directories(train_torch_test PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_compile_definitions(train_torch_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
