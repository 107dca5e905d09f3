// libFuzzer's entry: messages of a rank, of rank 0, of who joins, and between a launcher and its agents.
//   control_fuzz -max_len=512 -max_total_time=1800 build/nightly/control-corpus
#include <cstddef>
#include <iterator>
#include <span>

#include "control/lies.h"
#include "launch/agent_lies.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::uint8_t> input(data, size);
  const taxon::test::Draw draw = [&](std::uint64_t bound) {
    std::uint64_t value = 0;
    for (std::uint64_t most = bound - 1; most > 0 && !input.empty(); most >>= 8) {
      value = value << 8 | input.front();
      input = input.subspan(1);
    }
    return value % bound;
  };
  constexpr void (*kLies[])(const taxon::test::Draw&) = {
      taxon::control::lie_to_rank_zero, taxon::control::lie_in_first_messages,
      taxon::control::lie_as_rank_zero, taxon::launch::lie_in_launch_lines};
  kLies[draw(std::size(kLies))](draw);
  return 0;
}
