taxon_test(net UNITY 6 DEPS net)
if(grpcpp_FOUND)
  set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/net/grpc_test.cc PROPERTIES COMPILE_DEFINITIONS TAXON_WITH_GRPC=1)
endif()
