#pragma once

#include <cstdint>
#include <span>

namespace taxon::test {

/// Feeds an inbox of rank 0 of 3, through readers of connections as net/tcp has them, with what `input` makes
/// of it: raw bytes, and frames whose headers are sealed but lie about everything else. Whatever comes,
/// memory outside of the rank's region and of what it keeps stays as it was (checked), and at most the inbox
/// breaks.
void feed_frames(std::span<const std::uint8_t> input);

}  // namespace taxon::test
