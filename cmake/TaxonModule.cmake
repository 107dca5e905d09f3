# taxon_module(NAME DEPS module... [LIBS target...] [UNITY n]): the library of one folder of src/.
# Every .cc of the folder and of its sub-folders belongs to it, except the sub-folder EXCLUDE; DEPS are the modules that it may include.
function(taxon_module name)
  cmake_parse_arguments(ARG "" "EXCLUDE;UNITY" "DEPS;LIBS;PRIVATE_LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "/${name}/${ARG_EXCLUDE}/")
  endif()
  if(NOT sources)  # a folder of only headers
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/${name}_headers.cc)
    file(TOUCH ${sources})
  endif()
  add_library(taxon_${name} STATIC ${sources})
  set_target_properties(taxon_${name} PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME module_${name})
  target_include_directories(taxon_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>
                             "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR};${CMAKE_INSTALL_INCLUDEDIR}/taxon/detail>")
  target_compile_features(taxon_${name} PUBLIC cxx_std_20)
  target_link_libraries(taxon_${name} PRIVATE $<BUILD_INTERFACE:taxon_flags>)
  target_link_libraries(taxon_${name} PUBLIC ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(taxon_${name} PUBLIC taxon_${dep})
  endforeach()
  taxon_unity(taxon_${name} "${ARG_UNITY}")
  taxon_precompile(taxon_${name} taxon_base)
endfunction()

# taxon_unity(TARGET N): N files of it are compiled at once, where what they include takes longer to compile than they do; none, if empty.
function(taxon_unity target count)
  if(TAXON_UNITY AND count)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
    # The frame of a coroutine holds what its file keeps to itself, which a compiler that sees several files takes for a mistake.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# taxon_precompile(TARGET OWNER HEADER...): OWNER precompiles, all others take what it made.
set(TAXON_PRECOMPILED <algorithm> <array> <atomic> <chrono> <coroutine> <cstddef> <cstdint> <exception> <functional> <map> <memory>
                      <mutex> <optional> <set> <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h>)
function(taxon_precompile target owner)
  if(NOT TAXON_PRECOMPILE)
    return()
  elseif(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${TAXON_PRECOMPILED} ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

add_library(taxon_flags INTERFACE)
# GCC 12 sees overlapping copies in std::string that are not there (GCC bug 105651).
target_compile_options(taxon_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                       # Of precompiled headers it forgets that they are the system's, and speaks of bounds in std::string; a compiler
                       # cache wants to see them named in what it preprocesses.
                       $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${TAXON_PRECOMPILE}>>:-Wno-array-bounds>
                       $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${TAXON_PRECOMPILE}>>:-Wno-stringop-overflow>
                       $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${TAXON_PRECOMPILE}>>:-fpch-preprocess>
                       # Pragmas and targets of GCC, which Clang knows nothing of.
                       $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-pragmas> $<$<CXX_COMPILER_ID:Clang>:-Wno-ignored-attributes>
                       $<$<BOOL:${TAXON_WERROR}>:-Werror> $<$<CXX_COMPILER_ID:GNU>:-fcoroutines>)
if(TAXON_SANITIZE)
  add_compile_options(-fsanitize=${TAXON_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TAXON_SANITIZE})
endif()
