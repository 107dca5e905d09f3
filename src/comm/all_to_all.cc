#include "comm/all_to_all.h"

#include <list>

#include "base/check.h"
#include "comm/in_flight.h"
#include "comm/kernels.h"

namespace taxon::comm {
namespace {

struct Messages {
  std::list<net::RecvOp> receives;
  std::list<net::SendOp> sends;
};

task::Task<void> finish(Messages* messages) {
  for (net::RecvOp& receive : messages->receives) {
    co_await receive;
  }
  for (net::SendOp& send : messages->sends) {
    co_await send;
  }
}

}  // namespace

task::Task<void> all_to_all(Communicator& group, AllToAll call) {
  const auto members = static_cast<std::size_t>(group.size()), own = static_cast<std::size_t>(group.rank());
  TAXON_CHECK(call.outgoing.size() == members && call.incoming.size() == members, call.outgoing.size(),
              " out, ", call.incoming.size(), " in, of ", members, " members");
  TAXON_CHECK(call.outgoing[own].size() == call.incoming[own].size());
  net::Transport& transport = group.runtime().transport;
  const net::Tag tag = group.begin(net::Operation::AllToAll, call.unit);
  Messages messages;
  // Each begins with its neighbour, so that nobody gets everything at once.
  for (std::size_t step = 1; step < members; ++step) {
    const std::size_t to = (own + step) % members, from = (own + members - step) % members;
    if (!call.incoming[from].empty())
      messages.receives.emplace_back(transport, group.global(static_cast<int>(from)), tag,
                                     call.incoming[from], call.type);
    if (!call.outgoing[to].empty())
      messages.sends.emplace_back(transport, group.global(static_cast<int>(to)), tag, call.outgoing[to],
                                  call.type);
  }
  if (!call.outgoing[own].empty()) {
    ExchangeKernel copy(group, copy_kernel(call.incoming[own], call.outgoing[own]));
    if (!copy.done()) {
      co_await copy.finished();
    }
  }
  auto finishing = finish(&messages);
  co_await settle(group.runtime().pending(), std::move(finishing));
}

}  // namespace taxon::comm
