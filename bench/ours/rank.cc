#include "ours/rank.h"

#include <cstdlib>
#include <iostream>

#include "launch/host.h"

namespace taxon::bench {
namespace {

/// Nothing but the communication thread works here, so it may spin when every rank has a core. The lab's
/// hosts share this machine's cores too.
task::PollOptions poll_options(int ranks) {
  if (ranks <= launch::usable_cores()) {
    return {.spin = std::chrono::microseconds(200), .when_idle = task::PollOptions::WhenIdle::Spin};
  }
  return {.spin = std::chrono::microseconds(20), .when_idle = task::PollOptions::WhenIdle::YieldCore};
}

control::JoinOptions join_options(const Place& place, int control_port) {
  const char* secret = std::getenv("TAXON_SECRET");
  control::JoinOptions options;
  options.rank = Rank(place.rank);
  options.world_size = place.ranks;
  options.address = place.host;
  options.port = static_cast<std::uint16_t>(control_port);
  options.secret = control::Secret::from_text(secret ? secret : "");
  options.version = "bench";
  options.host_id = launch::host_id();
  return options;
}

}  // namespace

OwnRank::OwnRank(const Place& place, int control_port, const Network& network)
    : loop_(poll_options(place.ranks)), session_(control::Session::join(join_options(place, control_port))) {
  net::ProcessTransportOptions options;
  options.rank = Rank(place.rank);
  options.world_size = place.ranks;
  options.host = launch::host_id();
  std::vector<net::RankPlace> places;
  for (const control::Member& member : session_->members())
    places.push_back({member.host_id, member.address});
  options.address = net::job_address(options.rank, places);
  if (!net::are_on_one_host(places)) options.hosts = net::ProcessTransportOptions::Hosts::Several;
  options.job_epoch = static_cast<std::uint32_t>(session_->epoch());
  options.sleeps = place.ranks <= launch::usable_cores() ? net::ProcessTransportOptions::Sleeps::Rarely
                                                         : net::ProcessTransportOptions::Sleeps::Often;
  options.transport = network.kind;
  // As a run without servers (src/job/process.cc).
  options.on_its_way = net::ProcessTransportOptions::OnItsWay::AsTcpAllows;
  if (network.encryption == "tls") options.encryption = net::ProcessTransportOptions::Encryption::Tls;
  options.connections = network.connections;
  options.signals = 4096;  // a tensor channel for every variable of a model takes some hundreds
  transport_ = net::make_transport(loop_, waits_, options);
  const auto addresses = session_->exchange("transport addresses", transport_->self().address);
  std::vector<net::PeerInfo> peers;
  for (std::size_t r = 0; r < addresses.size(); ++r) {
    peers.push_back({addresses[r], session_->members()[r].host_id});
  }
  transport_->connect(peers);
  loop_.add(*transport_);
  session_->exchange("connected", {});
  runtime_ = std::make_unique<comm::Runtime>(comm::Runtime{*transport_, device_, recorder_});
  std::vector<Rank> members;
  for (int rank = 0; rank < place.ranks; ++rank) members.push_back(Rank(rank));
  group_ = std::make_unique<comm::Communicator>(*runtime_, "bench", std::move(members));
  arrived_ = std::make_unique<task::Event>(loop_, waits_);
}

OwnRank::~OwnRank() {
  loop_.remove(*transport_);
  group_.reset();
  session_->leave();
}

task::Task<void> OwnRank::serve() {
  co_await group_->establish();
  for (;;) {
    while (jobs_.empty()) {
      arrived_ = std::make_unique<task::Event>(loop_, waits_);
      auto wait = arrived_->wait("request");
      co_await wait;
    }
    Job* const job = jobs_.front();
    jobs_.pop_front();
    if (job->work == nullptr) {
      job->done.set_value();
      co_return;
    }
    std::exception_ptr error;
    try {
      co_await (*job->work)();
    } catch (...) {
      error = std::current_exception();
    }
    if (error) {
      job->done.set_exception(error);
      std::rethrow_exception(error);
    }
    job->done.set_value();
  }
}

void OwnRank::run() {
  auto serving = serve();
  loop_.run(std::move(serving));
}

void OwnRank::hand_over(Job* job) {
  loop_.post([this, job] {
    jobs_.push_back(job);
    arrived_->set();
  });
  job->done.get_future().get();
}

void OwnRank::perform(const std::function<task::Task<void>()>& work) {
  Job job{.work = &work};
  hand_over(&job);
}

void OwnRank::stop() {
  Job job{.work = nullptr};
  hand_over(&job);
}

int run_own_side(int argc, char** argv, const std::function<void(CommandChannel&, OwnRank&)>& requests) {
  try {
    const Place place = place_from(argc, argv);
    const OwnRank::Network network{option(argc, argv, "transport", "auto"),
                                   option(argc, argv, "encryption", "none"),
                                   std::stoi(option(argc, argv, "connections", "0"))};
    OwnRank rank(place, std::stoi(option(argc, argv, "job-port", "29500")), network);
    CommandChannel channel(place);
    std::thread thread([&] {
      try {
        requests(channel, rank);
      } catch (const std::exception& error) {
        std::cerr << "rank " << place.rank << ": " << error.what() << std::endl;
        std::_Exit(1);  // the loop may be waiting for ranks that will not come
      }
      rank.stop();
    });
    try {
      rank.run();
    } catch (const std::exception& error) {
      std::cerr << "rank " << place.rank << ": " << error.what() << std::endl;
      std::_Exit(1);  // the other thread may be waiting for requests
    }
    thread.join();
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}

}  // namespace taxon::bench
