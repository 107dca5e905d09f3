taxon_test(exchange UNITY 8 DEPS exchange data model sim)
target_compile_definitions(exchange_test PRIVATE TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
# It tests a row of examples/, which includes <taxon/...>.
set_source_files_properties(exchange/dynamic_ssp_test.cc PROPERTIES INCLUDE_DIRECTORIES "${CMAKE_SOURCE_DIR}/include;${CMAKE_SOURCE_DIR}/examples")
