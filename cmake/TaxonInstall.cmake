# What `make install` leaves: program, static libraries, headers, recipes, and the CMake package Taxon with two components.
#   taxon::comm   base to exchange: transports, collectives, the exchange; no libtorch
#   taxon::train  data, models, checkpoints, the step loop, jobs and planning; needs libtorch, if it was built with it
# Users include <taxon/...> alone; what these headers are made of lies in taxon/detail. pkg-config's `taxon` is all of it.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Taxon)
set(comm_modules base task plan program parallel net control tensor comm codec optim exchange)
set(train_modules data model report checkpoint train sim faults launch job planner)

if(NOT TAXON_WITH_TORCH)
  set(without_torch PATTERN torch EXCLUDE)
endif()

# taxon_component(NAME module...): one target over modules, and its export set.
function(taxon_component name)
  add_library(taxon_component_${name} INTERFACE)
  add_library(taxon::${name} ALIAS taxon_component_${name})
  set_target_properties(taxon_component_${name} PROPERTIES EXPORT_NAME ${name})
  set(targets ${ARGN})
  list(TRANSFORM targets PREPEND taxon_)
  target_link_libraries(taxon_component_${name} INTERFACE ${targets})
  install(TARGETS ${targets} taxon_component_${name} EXPORT taxon_${name}_targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT taxon_${name}_targets NAMESPACE taxon:: FILE taxon-${name}-targets.cmake DESTINATION ${package_dir})
  foreach(module ${ARGN})
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/src/${module} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/taxon/detail
            FILES_MATCHING PATTERN "*.h" ${without_torch})
  endforeach()
endfunction()

taxon_component(comm ${comm_modules})
taxon_component(train ${train_modules})
target_link_libraries(taxon_component_train INTERFACE taxon_component_comm)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/taxon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(pkgconfig_modules ${comm_modules} ${train_modules})
list(TRANSFORM pkgconfig_modules PREPEND -ltaxon_)
list(JOIN pkgconfig_modules " " pkgconfig_modules)
set(pkgconfig_requires "fmt yaml-cpp openssl libxxhash zlib libturbojpeg libpng libarchive ucx")
set(pkgconfig_libs "-lcsv -lgomp -ldl -pthread")
if(grpcpp_FOUND)
  string(APPEND pkgconfig_requires " grpc++")
endif()
if(TAXON_WITH_TORCH)
  if(TAXON_TORCH)
    # What a wheel's libtorch is becomes a part of the installation, so that this can outlive the build.
    set(torch_install_dir ${CMAKE_INSTALL_LIBDIR}/taxon/libtorch)
    install(DIRECTORY ${TAXON_TORCH_LIBRARY_DIR}/ DESTINATION ${torch_install_dir})
    file(RELATIVE_PATH torch_from_bin /${CMAKE_INSTALL_BINDIR} /${torch_install_dir})
    set_target_properties(taxon PROPERTIES INSTALL_RPATH "\$ORIGIN/${torch_from_bin}")
    string(PREPEND pkgconfig_libs "-L\${libdir}/taxon/libtorch -Wl,-rpath,\${libdir}/taxon/libtorch -ltorch_cpu -lc10 ")
  else()
    string(PREPEND pkgconfig_libs "-L${TAXON_TORCH_LIBRARY_DIR} -ltorch -ltorch_cpu -lc10 ")
  endif()
endif()
file(RELATIVE_PATH pkgconfig_up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_SOURCE_DIR}/cmake/taxon.pc.in ${CMAKE_BINARY_DIR}/taxon.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/taxon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/TaxonConfig.cmake.in ${CMAKE_BINARY_DIR}/TaxonConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# 0.x promises nothing between minor versions.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TaxonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TaxonConfig.cmake ${CMAKE_BINARY_DIR}/TaxonConfigVersion.cmake
              ${CMAKE_SOURCE_DIR}/cmake/LibtorchTargets.cmake ${CMAKE_SOURCE_DIR}/cmake/FindxxHash.cmake ${CMAKE_SOURCE_DIR}/cmake/Findgrpcpp.cmake
              ${CMAKE_SOURCE_DIR}/cmake/FindTurboJPEG.cmake ${CMAKE_SOURCE_DIR}/cmake/FindCsv.cmake DESTINATION ${package_dir})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/recipes ${CMAKE_SOURCE_DIR}/clusters ${CMAKE_SOURCE_DIR}/profiles
        DESTINATION ${CMAKE_INSTALL_DATADIR}/taxon)
