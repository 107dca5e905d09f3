taxon_test(net DEPS net)
if(grpcpp_FOUND)
  target_compile_definitions(net_test PRIVATE TAXON_WITH_GRPC=1)
endif()
