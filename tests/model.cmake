taxon_test(model DEPS model LIBS ${TORCH_LIBRARIES})
target_compile_definitions(model_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
