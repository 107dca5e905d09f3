taxon_test(codec SHARDS 2 UNITY 7 DEPS codec)
target_compile_definitions(codec_test PRIVATE TAXON_CODEC_CORPUS="${CMAKE_CURRENT_SOURCE_DIR}/codec/fuzz/corpus")

# Decoders under libFuzzer, which is clang's: `ninja codec_fuzz`, then `bin/codec_fuzz tests/codec/fuzz/corpus`. Not a part of
# `all`; the corpus and random messages are a test of every build (tests/codec/mutation_test.cc).
find_program(TAXON_FUZZ_COMPILER NAMES clang++-14 clang++)
if(TAXON_FUZZ_COMPILER)
  file(GLOB fuzzed CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/base/*.cc ${CMAKE_SOURCE_DIR}/src/codec/*.cc ${CMAKE_SOURCE_DIR}/src/codec/rows/*.cc
       ${CMAKE_SOURCE_DIR}/src/plan/text.cc ${CMAKE_SOURCE_DIR}/src/plan/catalogue.cc ${CMAKE_SOURCE_DIR}/src/plan/model_file.cc ${CMAKE_SOURCE_DIR}/src/plan/broken.cc ${CMAKE_SOURCE_DIR}/src/plan/nearest.cc)
  # clang 14 has neither _Float16 nor the name of F16C on this processor: these two are the usual compiler's.
  set(not_fuzzed ${CMAKE_SOURCE_DIR}/src/codec/half.cc ${CMAKE_SOURCE_DIR}/src/base/isa.cc)
  list(REMOVE_ITEM fuzzed ${not_fuzzed} ${CMAKE_SOURCE_DIR}/src/base/version.cc)  # the build says which version it is
  set(fuzz_flags -std=c++20 -O1 -g -ffp-contract=off -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/tests)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/codec_fuzz)
  add_custom_target(codec_fuzz
                    COMMAND ${CMAKE_CXX_COMPILER} ${fuzz_flags} -c ${not_fuzzed}
                    COMMAND ${TAXON_FUZZ_COMPILER} ${fuzz_flags} -fsanitize=fuzzer,address,undefined
                            -fno-sanitize-recover=undefined ${CMAKE_CURRENT_SOURCE_DIR}/codec/fuzz/decode_fuzz.cc ${fuzzed}
                            half.o isa.o -lfmt -lxxhash -o ${CMAKE_BINARY_DIR}/bin/codec_fuzz
                    WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/codec_fuzz
                    VERBATIM)
endif()
