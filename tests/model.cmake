taxon_test(model DEPS model LIBS ${TORCH_LIBRARIES})
