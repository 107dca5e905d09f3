// libFuzzer's entry:
//   ASAN_OPTIONS=allocator_may_return_null=1 frames_fuzz -max_len=512 -malloc_limit_mb=100000000
//   -runs=100000000
// A header may announce more than any host has; memory is refused then, and only what comes is ever touched.
#include "net/frames.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  taxon::test::feed_frames({data, size});
  return 0;
}
