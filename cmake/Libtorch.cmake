# libtorch: the system's, or with TAXON_TORCH a release out of PyPI's wheels, of whose parts for processors targets are made here
# (the wheel's own package for CMake wants a CUDA toolkit). Sets TORCH_LIBRARIES, and Torch_VERSION, both as find_package(Torch) does,
# and TAXON_TORCH_LIBRARY_DIR.
if(NOT TAXON_TORCH)
  find_package(Torch REQUIRED)
  get_filename_component(TAXON_TORCH_LIBRARY_DIR ${TORCH_LIBRARY} DIRECTORY)
  # The compiler's own choice, which precompiled headers of other modules don't spell out.
  get_target_property(torch_options torch INTERFACE_COMPILE_OPTIONS)
  list(REMOVE_ITEM torch_options -D_GLIBCXX_USE_CXX11_ABI=1)
  set_target_properties(torch PROPERTIES INTERFACE_COMPILE_OPTIONS "${torch_options}")
  return()
endif()

include(LibtorchTargets)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(torch_folder ${CMAKE_SOURCE_DIR}/build/torch)  # of all presets
execute_process(COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/fetch-torch ${TAXON_TORCH} ${torch_folder}
                OUTPUT_VARIABLE Torch_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_VARIABLE torch_error RESULT_VARIABLE torch_result)
if(NOT torch_result EQUAL 0)
  message(FATAL_ERROR "${torch_error}")
endif()
set(torch_root ${torch_folder}/${Torch_VERSION})
set(TAXON_TORCH_LIBRARY_DIR ${torch_root}/lib)
libtorch_targets(${TAXON_TORCH_LIBRARY_DIR} ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
message(STATUS "libtorch ${Torch_VERSION} out of PyPI's wheel, C++11 ABI: ${TAXON_TORCH_LIBRARY_DIR}")
