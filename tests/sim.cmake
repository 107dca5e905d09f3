taxon_test(sim UNITY 4 DEPS sim)
# What must hold of every transport and of every collective, in the virtual worlds (tests/support/worlds.h).
target_sources(sim_test PRIVATE net/messages_test.cc net/signals_test.cc net/cancellation_test.cc comm/conformance_test.cc
               comm/communicator_test.cc comm/mismatch_test.cc comm/tensor_test.cc)
target_compile_definitions(sim_test PRIVATE TAXON_TEST_VIRTUAL)
