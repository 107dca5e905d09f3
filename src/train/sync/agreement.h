#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "tensor/arena.h"

namespace taxon::train {

/// Small agreements between all ranks of a group, outside the buckets. Each call is collective.
class Agreement {
 public:
  /// `group` outlives the agreement.
  explicit Agreement(comm::Communicator& group);

  /// Member 0's bytes, at every member.
  task::Task<std::vector<std::byte>> broadcast(std::vector<std::byte> bytes);
  /// Every member's bytes, at every member, in member order.
  task::Task<std::vector<std::vector<std::byte>>> gather(std::vector<std::byte> bytes);
  /// Every member's bytes, at member 0 alone, in member order.
  task::Task<std::vector<std::vector<std::byte>>> collect(std::vector<std::byte> bytes);
  /// The reverse: member i gets bytes[i] of member 0's; what others give is ignored. REQUIRES: as many as
  /// members there.
  task::Task<std::vector<std::byte>> hand_out(std::vector<std::vector<std::byte>> bytes);
  /// Sums element by element in member order; the same bits at every member.
  task::Task<std::vector<double>> sum(std::vector<double> values);
  /// Throws Error{Mismatch} that names the members which differ from the most frequent value.
  task::Task<void> require_equal(std::uint64_t value, std::string what);
  /// The same of a few words, which the error quotes.
  task::Task<void> require_equal(std::string value, std::string what);

 private:
  task::Task<void> send(int member, net::Tag tag, const std::vector<std::byte>* bytes);
  task::Task<std::vector<std::byte>> receive(int member, net::Tag tag);
  task::Task<bool> is_equal(std::uint64_t value);
  /// Throws the error of require_equal(). REQUIRES: some values differ.
  task::Task<void> name_differing(std::string value, std::string what);

  comm::Communicator& group_;
};

}  // namespace taxon::train
