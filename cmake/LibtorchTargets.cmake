# libtorch_targets(LIBRARY_DIR [INCLUDE_DIR...]): libtorch::torch_cpu and libtorch::c10 out of a folder that holds all that they load beside
# the system's libraries. Sets TORCH_LIBRARIES.
function(libtorch_targets folder)
  foreach(name c10 torch_cpu)
    add_library(libtorch::${name} SHARED IMPORTED GLOBAL)
    set_target_properties(libtorch::${name} PROPERTIES IMPORTED_LOCATION ${folder}/lib${name}.so IMPORTED_SONAME lib${name}.so
                          INTERFACE_INCLUDE_DIRECTORIES "${ARGN}")
  endforeach()
  # Of what the libraries load the linker looks at the symbols too.
  target_link_libraries(libtorch::torch_cpu INTERFACE libtorch::c10)
  target_link_options(libtorch::torch_cpu INTERFACE "LINKER:-rpath-link,${folder}")
  set(TORCH_LIBRARIES libtorch::torch_cpu libtorch::c10 PARENT_SCOPE)
endfunction()
