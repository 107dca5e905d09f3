taxon_test(codec DEPS codec)
target_compile_definitions(codec_test PRIVATE TAXON_CODEC_CORPUS="${CMAKE_CURRENT_SOURCE_DIR}/codec/fuzz/corpus")

# Decoders under libFuzzer, which is clang's: `ninja codec_fuzz`, then `bin/codec_fuzz tests/codec/fuzz/corpus`. Not a part of
# `all`; the corpus and random messages are a test of every build (tests/codec/mutation_test.cc).
find_program(TAXON_FUZZ_COMPILER NAMES clang++-14 clang++)
if(TAXON_FUZZ_COMPILER)
  file(GLOB fuzzed CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/base/*.cc ${CMAKE_SOURCE_DIR}/src/codec/*.cc ${CMAKE_SOURCE_DIR}/src/codec/rows/*.cc)
  add_custom_target(codec_fuzz
                    COMMAND ${TAXON_FUZZ_COMPILER} -std=c++20 -O1 -g -ffp-contract=off -fsanitize=fuzzer,address,undefined
                            -fno-sanitize-recover=undefined -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/tests
                            ${CMAKE_CURRENT_SOURCE_DIR}/codec/fuzz/decode_fuzz.cc ${fuzzed} -lfmt -lxxhash
                            -o ${CMAKE_BINARY_DIR}/bin/codec_fuzz
                    VERBATIM)
endif()
