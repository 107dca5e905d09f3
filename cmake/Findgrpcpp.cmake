# gRPC's C++ library without protobuf, which the CMake package of gRPC wants too. Defines grpcpp::grpcpp.
find_path(grpcpp_INCLUDE_DIR grpcpp/grpcpp.h)
find_library(grpcpp_LIBRARY grpc++)
find_library(grpcpp_gpr_LIBRARY gpr)
find_library(grpcpp_grpc_LIBRARY grpc)
find_library(grpcpp_absl_LIBRARY absl_synchronization)  # gRPC's headers lock with it, in builds with Abseil
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(grpcpp REQUIRED_VARS grpcpp_LIBRARY grpcpp_grpc_LIBRARY grpcpp_gpr_LIBRARY grpcpp_INCLUDE_DIR)
if(grpcpp_FOUND AND NOT TARGET grpcpp::grpcpp)
  add_library(grpcpp::grpcpp UNKNOWN IMPORTED)
  set_target_properties(grpcpp::grpcpp PROPERTIES IMPORTED_LOCATION ${grpcpp_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${grpcpp_INCLUDE_DIR}
                        INTERFACE_LINK_LIBRARIES "${grpcpp_grpc_LIBRARY};${grpcpp_gpr_LIBRARY}")
  if(grpcpp_absl_LIBRARY)
    set_property(TARGET grpcpp::grpcpp APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${grpcpp_absl_LIBRARY})
  endif()
endif()
