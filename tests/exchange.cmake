taxon_test(exchange DEPS exchange data sim)
target_compile_definitions(exchange_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
