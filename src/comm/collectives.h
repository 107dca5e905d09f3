#pragma once

#include <span>
#include <string>
#include <string_view>

#include "comm/communicator.h"

namespace taxon::comm {

/// Who of those that are in flight together may have several messages on their way at once. Executor's thread
/// only.
class Precedence {
 public:
  /// False while more urgent ones should not wait behind them.
  virtual bool runs_ahead() const = 0;

 protected:
  ~Precedence() = default;
};

/// One use of a collective: `data` is summed, gathered or spread in place. Element count data.size() /
/// size_of(type), any length, 0 included. Equal in size and type at every member (checked by the messages
/// themselves: Error{Mismatch}).
struct Call {
  View data;
  DType type = DType::Float32;
  std::uint32_t unit = 0;  // bucket; calls on different units or lanes may be in flight together
  std::uint16_t lane = 0;
  /// Asked before each message but the first ones, by rows that have several on their way (ring); outlives
  /// the call. Null: nothing is more urgent.
  const Precedence* precedence = nullptr;
  bool runs_ahead() const { return !precedence || precedence->runs_ahead(); }
};

/// What a row needs to know to say whether it applies and what it would cost.
struct Shape {
  int size = 1;                // members
  std::size_t bytes = 0;       // of data
  bool shares_memory = false;  // every pair of members shares memory and the data lies in a shared region
};

/// Cost of talking, for choosing between rows and for the planner.
struct LinkCost {
  double latency = 0;    // seconds per message
  double bandwidth = 1;  // bytes per second and direction
  double reduce = 0;     // seconds per byte summed
};

/// One algorithm of one collective.
///   all_reduce      every member's data := the sum over the members; the same bits everywhere
///   reduce_scatter  part(data, size, i) of member i's data := the sum there; the rest of data is undefined
///   all_gather      part(data, size, i) of every member's data := member i's
///   broadcast       every member's data := member 0's
///   barrier         nobody leaves before all have entered; data is ignored
/// Parts are base/view.h part(), in elements. What a row does is a function of sizes alone, so two runs give
/// the same bits. Members that come with different sizes or types get Error{Mismatch}, at least one of them,
/// which then fails the rank. A sum that travels (every row but direct and one_shot) is rounded to the
/// call's type at each member that adds to it.
struct CollectiveRow {
  net::Operation collective;
  std::string_view name;
  bool (*applies)(const Shape&);
  double (*estimate)(const Shape&, const LinkCost&);  // seconds
  double (*sent)(const Shape&);  // bytes that a member sends or stores, the members' mean
  /// The algorithm's coroutine, for executors of collectives (comm/collective_executor.h).
  task::Task<void> (*steps)(Communicator&, Call);
  /// Heeds Call::precedence: what is more urgent never waits behind much of it.
  bool gives_way = false;

  /// Carries the collective out. The communicator is established; it, the row and the data outlive the task.
  /// The data is the row's until the task ends.
  task::Task<void> run(Communicator& group, Call call) const;
};

/// "all_reduce".
std::string_view name_of(net::Operation collective);
/// Every row, grouped by collective. comm/table.cc.
std::span<const CollectiveRow> collective_table();

/// The row of that name, one's own first. Throws Error{Usage} listing the names that exist.
const CollectiveRow& find_row(net::Operation collective, std::string_view name,
                              std::span<const CollectiveRow> own = {});
/// Whether some of what travels together is more urgent than the rest.
enum class Urgency { Equal, Differs };
/// The applicable row with the smallest estimate; ties go to the earlier row, one's own first. Where urgency
/// differs, the first of those that give way and take at most a quarter longer than it, if there are any. A
/// pure function: every rank that asks with equal arguments gets the same answer.
const CollectiveRow& choose_row(net::Operation collective, const Shape& shape, const LinkCost& cost,
                                std::span<const CollectiveRow> own = {}, Urgency urgency = Urgency::Equal);

}  // namespace taxon::comm
