# Fuzz targets, where the compiler is clang: -DCMAKE_CXX_COMPILER=clang++ -DTAXON_WITH_TORCH=OFF -DTAXON_WITH_FUZZERS=ON, target frames_fuzz
option(TAXON_WITH_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)
if(TAXON_WITH_FUZZERS)
  # What is fuzzed is compiled with the fuzzer's counters, so from its sources.
  set(fuzzed net/tcp/inbound net/wire/inbox net/wire/wire net/wire/arrivals net/completions net/describe net/mailbox net/mismatch net/transport
    base/error base/check task/wait)
  list(TRANSFORM fuzzed REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/src/\\1.cc")
  add_executable(frames_fuzz fuzz/frames_fuzz.cc net/frames.cc ${fuzzed})
  target_include_directories(frames_fuzz PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  # libstdc++ hides <coroutine> from clang before 17, whose own coroutines are not used here.
  target_compile_definitions(frames_fuzz PRIVATE $<$<VERSION_LESS:${CMAKE_CXX_COMPILER_VERSION},17>:__cpp_impl_coroutine=201902L>)
  target_compile_options(frames_fuzz PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined)
  target_link_options(frames_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(frames_fuzz PRIVATE fmt::fmt xxHash::xxhash)
endif()
