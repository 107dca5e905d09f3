taxon_test(base UNITY 4 DEPS base)
# Of its files and not of the program, which precompiles for all others.
file(GLOB base_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/base/*.cc)
set_source_files_properties(${base_tests} PROPERTIES COMPILE_DEFINITIONS TAXON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
