taxon_test(exchange DEPS exchange sim)
target_compile_definitions(exchange_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
