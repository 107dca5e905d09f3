#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "comm/collective_executor.h"
#include "net/mailbox.h"
#include "sim/flows.h"
#include "sim/schedules/schedules.h"

namespace taxon::sim {

/// Carries collectives out as one event each: the members meet, and each is let go at the time that the row's
/// schedule (sim/schedules/) gives it over the cluster's links, counted from when the last one came whom the
/// algorithm waits for. Collectives under way at the same time share links (sim/flows.h). Real memory gets
/// the row's result, with the same bits; phantoms have none.
///
/// A member that is cancelled breaks the rendezvous: who was not let go before waits until it is cancelled
/// too.
class Coarse final : public comm::CollectiveExecutor {
 public:
  Coarse(EventQueue& queue, Wiring& wiring, Faults& faults);
  Coarse(const Coarse&) = delete;
  ~Coarse() override;

  task::Task<void> run(const comm::CollectiveRow& row, comm::Communicator& group, comm::Call call) override;
  task::Task<std::vector<std::byte>> gather(comm::Communicator& group, net::Tag tag, ConstView mine) override;

  /// For which the rank's exchange stream has summed.
  Duration summing(Rank rank) const { return summing_[static_cast<std::size_t>(rank.value())]; }
  /// That ended everywhere.
  std::uint64_t collectives() const { return collectives_; }

 private:
  class Entry;
  class Rendezvous;
  /// One use of a collective, alone on the cluster.
  struct Profile {
    CompletionTimes table;
    Duration length{0};
    std::vector<ScheduleEvaluator::Use> uses;
    std::vector<Flows::Load> loads;
    std::optional<Rank> cut_off;
  };
  /// A group and what is known of it.
  struct Party {
    std::vector<Rank> members;
    std::map<std::tuple<const CoarseSchedule*, std::size_t, DType>, std::shared_ptr<const Profile>> profiles;
  };
  /// What all members of a rendezvous come with.
  struct Subject {
    const CoarseSchedule* schedule = nullptr;
    net::Tag tag;
    std::size_t bytes = 0;
    DType type = DType::UInt8;
  };
  struct TagHash {
    std::size_t operator()(const net::Tag& tag) const { return net::hash_match(Rank(0), tag); }
  };

  Rendezvous& rendezvous(comm::Communicator& group, const Subject& subject);
  Party& party(const comm::Communicator& group, std::uint32_t number);
  std::shared_ptr<const Profile> profile(Party& party, const Subject& subject);
  void count(const Profile& profile);
  void over(Rendezvous& rendezvous);

  EventQueue& queue_;
  Wiring& wiring_;
  Faults& faults_;
  ScheduleEvaluator evaluator_;
  Flows flows_;
  std::map<std::uint32_t, Party> parties_;                                         // by the tags' group
  std::unordered_map<net::Tag, std::unique_ptr<Rendezvous>, TagHash> rendezvous_;  // never iterated
  std::vector<Duration> summing_;
  std::uint64_t collectives_ = 0;
};

}  // namespace taxon::sim
