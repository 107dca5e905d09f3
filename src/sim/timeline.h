#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "net/tag.h"
#include "tensor/device.h"

namespace taxon::sim {

/// What kernels and links did, for reports on a run: who waited for what can be read from the times. A world
/// writes into it. When it would hold more than `most` entries of a kind, the oldest are forgotten.
class ResourceTimeline {
 public:
  explicit ResourceTimeline(std::size_t most = std::size_t{8} << 20) : most_(most) {}

  /// A kernel's time on a stream of its rank's device.
  struct Work {
    int rank = 0;
    tensor::Stream stream = tensor::Stream::Compute;
    std::uint32_t name = 0;    // see name()
    Instant came, begin, end;  // it was started, the stream turned to it, it ended
  };
  /// A message's time at one end of a link, or a switch.
  struct Service {
    std::uint32_t link = 0;  // its place among World::links()
    int source = 0, target = 0;
    std::uint32_t unit = 0;
    std::uint64_t bytes = 0;
    Instant came, begin, end;          // its first byte came, its turn came, its last byte had passed
    Instant arrived = Instant::max();  // its last byte was there; only of the last link of its way
    std::int64_t before = -1;          // number of the service of this message at the link before
  };

  const std::deque<Work>& works() const { return works_; }
  const std::deque<Service>& services() const { return services_; }
  /// Number of services()[0]; `before` counts from the beginning of the run.
  std::int64_t first_service() const { return first_service_; }
  /// Everything that ended after this is there.
  Instant complete_from() const { return complete_from_; }
  const std::string& name(std::uint32_t index) const { return names_[index]; }

  // For the world:
  std::uint32_t name_of(std::string_view text);
  void add(const Work& work);
  /// Returns the service's number.
  std::int64_t add(const Service& service);
  void arrived(std::int64_t service, Instant when);

 private:
  std::size_t most_;
  std::deque<Work> works_;
  std::deque<Service> services_;
  std::int64_t first_service_ = 0;
  Instant complete_from_ = Instant();
  std::vector<std::string> names_;
};

}  // namespace taxon::sim
