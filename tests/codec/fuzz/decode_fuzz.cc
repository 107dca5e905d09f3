// libFuzzer's target: `ninja codec_fuzz`, then `bin/codec_fuzz tests/codec/fuzz/corpus`.
#include "codec/fuzz/feed.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size >= 4) taxon::codec::fuzz::feed({data, size});
  return 0;
}
