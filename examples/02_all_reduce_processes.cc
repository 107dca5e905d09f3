// One process per rank, on one host or several: they meet through the control network and sum over UCX.
//   for r in 0 1; do RANK=$r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ./02_all_reduce_processes &
//   done; wait
// On several hosts every rank also needs the same TAXON_SECRET.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <numeric>
#include <string>

#include "comm/collectives.h"
#include "control/session.h"
#include "net/transport_choice.h"
#include "task/poll_loop.h"
#include "tensor/arena.h"
#include "tensor/cpu_device.h"

using namespace taxon;

std::string setting(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

control::JoinOptions who_am_i() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  control::JoinOptions join;
  join.rank = Rank(std::stoi(setting("RANK", "0")));
  join.world_size = std::stoi(setting("WORLD_SIZE", "1"));
  join.address = setting("MASTER_ADDR", "127.0.0.1");
  join.port = static_cast<std::uint16_t>(std::stoi(setting("MASTER_PORT", "29500")));
  join.secret = control::Secret::from_text(setting("TAXON_SECRET", ""));
  join.host_id = host;
  join.progress = [](const std::string& line) { std::cerr << line << "\n"; };
  return join;
}

// Ranks prove it to each other, too.
std::vector<unsigned char> secret_bytes() {
  const std::string secret = setting("TAXON_SECRET", "");
  return {secret.begin(), secret.end()};
}

// Where other hosts reach this rank; the transport listens nowhere else.
std::string address_of(const control::Session& session) {
  std::vector<net::RankPlace> places;
  for (const control::Member& member : session.members()) places.push_back({member.host_id, member.address});
  return net::job_address(session.rank(), places);
}

// Tells everybody how to reach this rank, and learns how to reach them.
void connect(net::ProcessTransport& transport, control::Session& session) {
  auto addresses = session.exchange("addresses", transport.self().address);
  std::vector<net::PeerInfo> peers;
  for (std::size_t r = 0; r < addresses.size(); ++r)
    peers.push_back({addresses[r], session.members()[r].host_id});
  transport.connect(peers);
}

task::Task<void> sum(comm::Runtime* runtime) {
  std::vector<Rank> everybody;
  for (int r = 0; r < runtime->world_size(); ++r) everybody.push_back(Rank(r));
  comm::Communicator world(*runtime, "world", everybody);
  auto establish = world.establish();
  co_await establish;
  tensor::Arena arena(runtime->transport, DType::Float32, 1 << 20);  // where peers may reach it
  auto share = world.share(arena.region());
  co_await share;

  auto values = as_span<float>(arena.bytes());
  std::fill(values.begin(), values.end(), static_cast<float>(runtime->rank().value() + 1));
  comm::Call call{arena.bytes(), arena.type()};
  comm::Shape shape{world.size(), arena.bytes().size(), world.shares_memory()};
  const auto& row = comm::choose_row(net::Operation::AllReduce, shape, {5e-6, 1e9, 1e-10});
  auto all_reduce = row.run(world, call);
  co_await all_reduce;
  std::cout << "rank " << runtime->rank().value() << " of " << world.size() << ": " << row.name << " over "
            << runtime->transport.path(world.global(world.size() - 1 - world.rank())).name
            << ", every value is " << values[0] << ", their mean "
            << std::accumulate(values.begin(), values.end(), 0.0) / values.size() << "\n";
  comm::Call last{};
  auto barrier = comm::find_row(net::Operation::Barrier, "dissemination").run(world, last);
  co_await barrier;  // nobody takes memory away that others still read
}

int main() {
  try {
    auto session = control::Session::join(who_am_i());
    task::PollLoop loop;
    task::PendingOps waits;
    const auto made = net::make_transport(loop, waits,
                                          {.rank = session->rank(),
                                           .world_size = session->world_size(),
                                           .host = who_am_i().host_id,
                                           .address = address_of(*session),
                                           .secret = secret_bytes()});
    net::ProcessTransport& transport = *made;
    connect(transport, *session);
    loop.add(transport);
    tensor::CpuDevice device(loop);
    comm::FlightRecorder recorder;
    comm::Runtime runtime{transport, device, recorder};
    loop.run(sum(&runtime));
    session->leave();
    loop.remove(transport);
  } catch (const Error& error) {
    std::cerr << to_string(error.kind()) << ": " << error.what() << "\n";
    return exit_code(error.kind());
  }
}
