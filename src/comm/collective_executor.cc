#include "comm/collective_executor.h"

#include <cstring>
#include <deque>

#include "comm/collectives.h"
#include "comm/in_flight.h"

namespace taxon::comm {
namespace {

/// Everybody's bytes to everybody.
struct Gather {
  Communicator& group;
  net::Tag tag;
  ConstView mine;
  std::vector<std::byte> all;
  std::deque<net::SendOp> sends;
  std::deque<net::RecvOp> receives;

  Gather(Communicator& group, net::Tag tag, ConstView mine)
      : group(group), tag(tag), mine(mine), all(mine.size() * static_cast<std::size_t>(group.size())) {}

  task::Task<void> run() {
    net::Transport& transport = group.runtime().transport;
    for (int member = 0; member < group.size(); ++member) {
      View place(all.data() + static_cast<std::size_t>(member) * mine.size(), mine.size());
      if (member == group.rank()) {
        if (!mine.empty()) std::memcpy(place.data(), mine.data(), mine.size());
        continue;
      }
      receives.emplace_back(transport, group.global(member), tag, place, DType::UInt8);
      sends.emplace_back(transport, group.global(member), tag, mine, DType::UInt8);
    }
    for (auto& receive : receives) co_await receive;
    for (auto& send : sends) co_await send;
  }
};

class StepByStep final : public CollectiveExecutor {
 public:
  task::Task<void> run(const CollectiveRow& row, Communicator& group, Call call) override {
    return row.steps(group, call);
  }
  task::Task<std::vector<std::byte>> gather(Communicator& group, net::Tag tag, ConstView mine) override {
    Gather gather(group, tag, mine);
    auto body = gather.run();
    auto all = settle(group.runtime().pending(), std::move(body));
    co_await all;
    co_return std::move(gather.all);
  }
};

}  // namespace

CollectiveExecutor& step_by_step() {
  static StepByStep carrier;
  return carrier;
}

task::Task<void> CollectiveRow::run(Communicator& group, Call call) const {
  return group.runtime().carrier.run(*this, group, call);
}

}  // namespace taxon::comm
