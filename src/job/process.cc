#include "job/process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "base/failure.h"
#include "base/rng.h"
#include "exchange/levels/levels.h"
#include "job/inputs.h"
#include "launch/binding.h"
#include "launch/host.h"
#include "net/transport_choice.h"
#include "task/scope.h"

namespace taxon::job {
namespace {

// Beside those that compute: of the network, of libraries, of what reads ahead.
constexpr int kOtherThreads = 4;

[[noreturn]] void disagree(const char* what) {
  throw Error(ErrorKind::Mismatch,
              fmt::format("a rank has sent its {} in another form than this version's", what));
}

/// Starts so many threads and ends them. Libraries that are refused theirs later end the process without a
/// reason.
void require_threads(int count) {
  std::promise<void> enough;
  std::shared_future<void> over = enough.get_future().share();
  std::vector<std::thread> threads;
  std::optional<Error> refused;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([over] { over.wait(); });
  } catch (const std::exception& error) {
    const Error why = error_from(error);
    refused.emplace(why.kind(), fmt::format("this process needs {} threads and may start {}: {}", count,
                                            threads.size(), why.what()));
  }
  enough.set_value();
  for (std::thread& thread : threads) thread.join();
  if (refused) throw *refused;
}

// Whether every rank has a core for the thread that communicates.
bool has_free_core(int ranks, int threads) { return launch::usable_cores() >= ranks * (threads + 1); }

/// The first part of host_id().
std::string_view machine_of(std::string_view host_id) { return host_id.substr(0, host_id.find('/')); }

int data_threads(const plan::Plan& plan, int threads) {
  return plan.data.threads > 0 ? plan.data.threads : threads;
}

// Polling a little longer saves a wake-up per message. Where cores are short, little of it, since whoever
// else wants the core gets it; where time is counted (a container's quota), none: compute would pay for it.
// Nor beside a team, whose threads poll too: who yields the core to one of them waits for milliseconds.
task::PollOptions poll_options(const plan::Plan& plan, int local_ranks) {
  const int threads = compute_threads(plan, local_ranks);
  const bool counted = launch::usable_cores() < launch::cores_of_affinity();
  const int spin = has_free_core(local_ranks, threads) ? 200 : counted || threads > 1 ? 0 : 20;
  return {.spin = std::chrono::microseconds(spin), .when_idle = task::PollOptions::WhenIdle::YieldCore};
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

/// What the plan says of the host that this rank's plays.
tensor::SpeedEmulator::Options emulated_host(const plan::Plan& plan, int rank) {
  tensor::SpeedEmulator::Options options{.cores = plan.emulation.cores};
  std::vector<plan::SlowdownPlan> mine;
  for (const plan::SlowdownPlan& slow : plan.emulation.slow)
    if (slow.rank < 0 || slow.rank == rank) mine.push_back(slow);
  if (mine.empty()) return options;
  Rng chance(plan.seed, "slow kernels", static_cast<std::uint64_t>(rank));
  options.slowdown = [mine, chance]() mutable {
    double factor = 1;
    for (const plan::SlowdownPlan& slow : mine)
      if (chance.uniform() < slow.probability) factor *= slow.slowdown;
    return factor;
  };
  return options;
}

}  // namespace

Process::Process(const plan::Plan& plan, ProcessOptions options)
    : options_(std::move(options)),
      loop_(poll_options(plan, options_.identity.local_world_size)),
      recorder_(plan.report.trace ? comm::FlightRecorder::Keep::Everything
                                  : comm::FlightRecorder::Keep::Recent),
      failures_(options_.expendable) {
  cores_ = launch::allowed_cores();
  threads_ = compute_threads(plan, options_.identity.local_world_size);
  require_threads(threads_ + data_threads(plan, threads_) - 1 + kOtherThreads);
  if (options_.identity.world_size == 1) {
    open_device(plan);
    alone_ = std::make_unique<net::LoopbackWorld>(loop_, 1);
    runtime_ =
        std::make_unique<comm::Runtime>(comm::Runtime{alone_->transport(Rank(0)), *device_, recorder_});
    return;
  }
  join(plan);
  try {
    count_neighbours(plan);
    open_transport(plan);
    bind(plan);
    open_device(plan);
    begin();
    runtime_ = std::make_unique<comm::Runtime>(comm::Runtime{*transport_, *device_, recorder_});
  } catch (const std::exception& error) {
    fail(error_from(error));
  }
}

Process::~Process() {
  if (transport_) loop_.remove(*transport_);
}

void Process::join(const plan::Plan& plan) {
  const launch::Identity& who = options_.identity;
  control::JoinOptions join;
  join.rank = Rank(who.rank);
  join.world_size = who.world_size;
  join.address = who.master_addr;
  join.port = static_cast<std::uint16_t>(who.master_port);
  join.secret = options_.secret;
  join.version = options_.version;
  join.plan_hash = plan::plan_hash(plan);
  join.host_id = launch::host_id();
  join.timeouts.join = milliseconds(plan.control.join_seconds);
  join.timeouts.silence = milliseconds(plan.control.silence_seconds);
  join.timeouts.hang = milliseconds(plan.control.hang_seconds);
  join.timeouts.peer = milliseconds(plan.control.deadline_seconds);
  join.progress = options_.say;
  join.other_address = who.other_master_addr;
  join.give_up = [stop = options_.stop, note = options_.note]() -> std::optional<Error> {
    if (stop && stop->load()) return Error(ErrorKind::Interrupted, "interrupted");
    const std::string who_died = note ? note->told() : std::string();
    if (who_died.empty()) return {};
    return Error(ErrorKind::PeerLost, who_died);
  };
  session_ = control::Session::join(std::move(join));
  last_resort_.install();
  session_->on_event([this](const control::Event& event) { on_event(event); });
}

void Process::open_transport(const plan::Plan& plan) {
  const launch::Identity& who = options_.identity;
  std::string host = session_->members()[static_cast<std::size_t>(who.rank)].host_id;
  std::vector<net::RankPlace> places;
  for (const control::Member& member : session_->members())
    places.push_back({member.host_id, member.address});
  net::ProcessTransportOptions options;
  options.rank = Rank(who.rank);
  options.world_size = who.world_size;
  options.host = host;
  options.job_epoch = static_cast<std::uint32_t>(session_->epoch());
  options.transport = plan.transport.kind;
  options.address = net::job_address(options.rank, places);
  if (!net::are_on_one_host(places)) options.hosts = net::ProcessTransportOptions::Hosts::Several;
  options.payload_checksums = plan.transport.checksum == plan::Checksum::Payload ? net::PayloadChecksums::On
                                                                                 : net::PayloadChecksums::Off;
  const auto secret = options_.secret.bytes();
  options.secret.assign(secret.begin(), secret.end());
  if (plan.transport.encryption == plan::Encryption::Tls)
    options.encryption = net::ProcessTransportOptions::Encryption::Tls;
  options.connections = plan.transport.connections;
  options.expendable = options_.expendable;
  if (has_free_core(sharers_, threads_)) options.sleeps = net::ProcessTransportOptions::Sleeps::Rarely;
  // Where there are no servers, no two senders share a link for long.
  if (!exchange::served_level(plan.exchange.levels))
    options.on_its_way = net::ProcessTransportOptions::OnItsWay::AsTcpAllows;
  transport_ = net::make_transport(loop_, pending_, options);
  auto addresses = session_->exchange("transport addresses", transport_->self().address);
  std::vector<net::PeerInfo> peers;
  for (std::size_t r = 0; r < addresses.size(); ++r)
    peers.push_back({addresses[r], session_->members()[r].host_id});
  transport_->connect(peers);
  loop_.add(*transport_);
  // Every executor's time starts with its process; traces are merged on rank 0's.
  auto since_boot = [](std::chrono::steady_clock::time_point t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
  };
  std::int64_t start = since_boot(loop_.started()) + session_->clock_offset().count();
  std::vector<std::byte> mine(sizeof start);
  std::memcpy(mine.data(), &start, sizeof start);
  auto starts = session_->exchange("clocks", mine);
  if (starts[0].size() != sizeof start) disagree("clocks");
  std::int64_t zero;
  std::memcpy(&zero, starts[0].data(), sizeof zero);
  clock_offset_ = std::chrono::nanoseconds(start - zero);
}

/// Launchers that don't know of each other (two of Slurm's daemons, two pods) each count their own ranks.
void Process::count_neighbours(const plan::Plan& plan) {
  std::vector<std::byte> mine(cores_.size() * sizeof(int));
  std::memcpy(mine.data(), cores_.data(), mine.size());
  const auto all = session_->exchange("cores", mine);
  const auto& members = session_->members();
  const auto self = static_cast<std::size_t>(options_.identity.rank);
  int in_container = 0;
  for (std::size_t r = 0; r < members.size(); ++r) {
    if (machine_of(members[r].host_id) != machine_of(members[self].host_id)) continue;
    if (members[r].host_id == members[self].host_id) ++in_container;
    if (all[r].size() % sizeof(int) != 0) disagree("cores");
    if (r == self) me_ = static_cast<int>(neighbours_.size());
    neighbours_.emplace_back(all[r].size() / sizeof(int));
    std::memcpy(neighbours_.back().data(), all[r].data(), all[r].size());
  }
  sharers_ = launch::ranks_on_cores_of(neighbours_, me_);
  if (plan.threads > 0) return;
  const double cores = launch::cores_of_affinity();
  double share = cores / sharers_;
  if (launch::usable_cores() < cores) share = std::min(share, launch::usable_cores() / in_container);
  const int told = threads_;
  threads_ = std::max(1, static_cast<int>(share));
  if (threads_ < told && is_first_of_machine())
    options_.say(
        fmt::format("{} ranks share the {:g} cores of this machine, more than their launcher says: {} "
                    "compute thread{} each",
                    sharers_, cores, threads_, threads_ == 1 ? "" : "s"));
}

/// Before threads of kernels start, which inherit it. Where a quota counts processor time, cores say little.
void Process::bind(const plan::Plan& plan) {
  if (plan.cores == plan::CoreShare::All || launch::usable_cores() < launch::cores_of_affinity()) return;
  if (const auto share = launch::share_of_cores(neighbours_, me_, threads_); !share.empty())
    launch::bind_to(share);
}

/// Where this rank's compute threads are as many as its cores each keeps to one, and the thread that
/// communicates, if it is another, to that of the one that works with it.
void Process::open_device(const plan::Plan& plan) {
  std::vector<int> cores = launch::allowed_cores();
  const bool shared = static_cast<std::size_t>(sharers_ * threads_) > cores_.size();  // with other ranks
  const bool fills = threads_ > 1 && cores.size() == static_cast<std::size_t>(threads_) && !shared &&
                     plan.cores != plan::CoreShare::All;
  if (fills && !computes_here()) core_ = cores.front();
  device_ = std::make_unique<tensor::CpuDevice>(
      loop_, tensor::CpuDeviceOptions{.cores = std::move(cores),
                                      .keeps_team_apart = fills,
                                      .computes_here = computes_here(),
                                      .speed_emulator = emulated_host(plan, options_.identity.rank),
                                      .data_threads = data_threads(plan, threads_)});
}

/// From here on there are no more exchanges, which need everybody.
void Process::begin() {
  session_->set_expendable(options_.expendable);
  if (options_.note) options_.note->begin();
}

/// On the session's thread.
void Process::on_event(const control::Event& event) {
  if (auto* departed = std::get_if<control::Departed>(&event);
      departed && failures_.is_expendable(departed->rank)) {
    // Rank 0's training says what was lost with it.
    const Error error(ErrorKind::PeerLost, control::describe(event), {.rank = departed->rank});
    loop_.post([this, error, rank = departed->rank] {
      failures_.report_lost(rank, std::make_exception_ptr(error));
    });
    return;
  }
  if (!control::is_fatal(event)) {
    if (std::holds_alternative<control::Departed>(event))
      return;  // rank 0 is of another mind, and will say so
    bool about_root = false;
    if (auto* silent = std::get_if<control::Silent>(&event)) about_root = silent->rank == Rank(0);
    if (auto* returned = std::get_if<control::Returned>(&event)) about_root = returned->rank == Rank(0);
    if (options_.identity.rank == (about_root ? 1 : 0)) options_.say(control::describe(event));
    return;
  }
  last_resort_.on_loss();
  loop_.post([this, error = control::error_of(event)] { pending_.cancel(std::make_exception_ptr(error)); });
}

/// Tells the session once a second what this rank waits for.
task::Task<void> Process::watch(task::PendingOps* waits) {
  for (;;) {
    task::SleepUntil sleep(loop_, *waits, loop_.now() + std::chrono::seconds(1));
    bool over = false;
    try {
      co_await sleep;
    } catch (...) {
      over = true;
    }
    if (over) co_return;
    session_->report_waits(pending_.snapshot(), loop_.now());
  }
}

task::Task<void> Process::guard(task::Task<void> main) {
  task::PendingOps waits;
  task::Scope beside(waits);
  if (session_) beside.spawn(watch(&waits));
  std::exception_ptr error;
  try {
    co_await main;
  } catch (...) {
    error = std::current_exception();
  }
  waits.cancel(std::make_exception_ptr(Error(ErrorKind::Internal, "the run is over")));
  co_await beside.join();
  if (session_) session_->report_waits({}, loop_.now());
  if (error) std::rethrow_exception(error);
}

void Process::run(task::Task<void> main) {
  try {
    last_resort_.set_running(true);
    std::optional<launch::CommunicatingThread> here;
    if (!computes_here()) here.emplace(core_);
    auto guarded = guard(std::move(main));
    loop_.run(std::move(guarded));
    if (transport_) transport_->drain();  // nobody may wait for what is here while this rank computes
    last_resort_.set_running(false);
  } catch (const std::exception& error) {
    last_resort_.set_running(false);
    fail(error_from(error));
  }
}

void Process::wait_for_program(bool waits) { last_resort_.set_waiting_for_program(waits); }

void Process::leave() {
  try {
    if (session_) session_->leave();
    told_ = true;
  } catch (const std::exception& error) {
    fail(error_from(error));
  }
}

void Process::abandon(const Error& why) {
  if (session_ && !std::exchange(told_, true)) session_->abort(why.kind(), why.what());
}

void Process::fail(const Error& error) {
  if (!session_) throw error;
  told_ = true;
  // The network library may notice a death before the control connection does; the session knows who was
  // first.
  const bool others = error.kind() == ErrorKind::Transport || error.kind() == ErrorKind::PeerLost;
  for (int i = 0; i < 20 && !session_->failure() && others; ++i) usleep(50'000);
  if (auto first = session_->failure()) throw control::error_of(*first);
  session_->abort(error.kind(), error.what());
  throw error;
}

}  // namespace taxon::job
