# Fuzz targets, where the compiler is clang: -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTAXON_WITH_TORCH=OFF
# -DTAXON_WITH_FUZZERS=ON, targets frames_fuzz and control_fuzz.
option(TAXON_WITH_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)
# taxon_fuzzer(NAME SOURCES file... FUZZED source...): what is fuzzed is compiled with the fuzzer's counters, so from its sources.
function(taxon_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;FUZZED" ${ARGN})
  list(TRANSFORM ARG_FUZZED REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/\\1.cc")
  add_executable(${name} fuzz/${name}.cc ${ARG_SOURCES} ${ARG_FUZZED})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  # libstdc++ hides <coroutine> from clang before 17, whose own coroutines are not used here.
  target_compile_definitions(${name} PRIVATE $<$<VERSION_LESS:${CMAKE_CXX_COMPILER_VERSION},17>:__cpp_impl_coroutine=201902L>)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(${name} PRIVATE fmt::fmt xxHash::xxhash nlohmann_json::nlohmann_json OpenSSL::Crypto)
endfunction()
if(TAXON_WITH_FUZZERS)
  set(base src/base/error src/base/check src/task/wait)
  taxon_fuzzer(frames_fuzz SOURCES net/frames.cc
               FUZZED ${base} src/net/tcp/inbound src/net/wire/inbox src/net/wire/wire src/net/wire/arrivals src/net/completions
                      src/net/describe src/net/mailbox src/net/mismatch src/net/transport)
  set(control acceptor client connection connector core diagnose event handshake hang_watch hub hub_run liveness poller secret session socket wire)
  list(TRANSFORM control PREPEND src/control/)
  taxon_fuzzer(control_fuzz SOURCES control/lies.cc launch/agent_lies.cc FUZZED ${base} src/base/failure src/base/units ${control} src/launch/agent_messages src/launch/clock_check)
endif()
