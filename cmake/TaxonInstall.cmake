# What `make install` leaves: program, static libraries, headers, recipes, and the CMake package Taxon with two components.
#   taxon::comm   base to exchange: transports, collectives, the exchange; no libtorch
#   taxon::train  data, models, checkpoints, the step loop; needs libtorch, if it was built with it
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Taxon)
set(comm_modules base task plan net control tensor comm codec optim exchange)
set(train_modules data model report checkpoint train sim faults launch job planner)

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
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/src/${module} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/taxon
            FILES_MATCHING PATTERN "*.h" PATTERN torch EXCLUDE)
  endforeach()
endfunction()

taxon_component(comm ${comm_modules})
taxon_component(train ${train_modules})
target_link_libraries(taxon_component_train INTERFACE taxon_component_comm)

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/TaxonConfig.cmake.in ${CMAKE_BINARY_DIR}/TaxonConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# 0.x promises nothing between minor versions.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TaxonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TaxonConfig.cmake ${CMAKE_BINARY_DIR}/TaxonConfigVersion.cmake
              ${CMAKE_SOURCE_DIR}/cmake/FindxxHash.cmake ${CMAKE_SOURCE_DIR}/cmake/Findgrpcpp.cmake DESTINATION ${package_dir})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/recipes ${CMAKE_SOURCE_DIR}/clusters ${CMAKE_SOURCE_DIR}/profiles
        DESTINATION ${CMAKE_INSTALL_DATADIR}/taxon)
