#include "control/core.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "base/failure.h"

namespace taxon::control {
namespace {

// How long the last words of a rank may take to be confirmed by the others' kernels.
constexpr std::chrono::seconds kLastWords(1);
constexpr std::chrono::milliseconds kDrainStep(2);

std::uint64_t random_epoch() {
  Nonce nonce = random_nonce();
  std::uint64_t epoch;
  std::memcpy(&epoch, nonce.data(), sizeof epoch);
  return epoch;
}

std::chrono::milliseconds until(Clock::time_point when) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now());
  return std::clamp(left, std::chrono::milliseconds(0), std::chrono::milliseconds(60'000));
}

}  // namespace

Session::Core::Core(JoinOptions options)
    : options_(std::move(options)), wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  TAXON_CHECK(options_.rank.value() >= 0 && options_.rank.value() < options_.world_size,
              "rank=", options_.rank.value(), " world=", options_.world_size);
  if (!wake_fd_.valid())
    throw Error(kind_of(errno, ErrorKind::Rendezvous), "eventfd failed: " + errno_text(errno));
  poller_.watch(wake_fd_.get(), EPOLLIN, [this](std::uint32_t) {
    std::uint64_t count;
    [[maybe_unused]] auto drained = read(wake_fd_.get(), &count, sizeof count);
  });
}

Session::Core::~Core() { stop(); }

void Session::Core::join() {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    const Error why = error_from(error);
    throw Error(why.kind(),
                std::string("the thread of the control network cannot be started: ") + why.what());
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return joined_ || broken_; });
  if (!broken_) return;
  Error why = *broken_;
  lock.unlock();
  stop();
  throw why;
}

void Session::Core::run() {
  // Signals are for the thread that waits for them.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "taxon-control");
  try {
    set_up();
    loop();
    drain();
  } catch (const Error& error) {
    broke(error);
  } catch (const std::exception& error) {
    const Error why = error_from(error);
    broke(Error(why.kind(), std::string("the control network failed: ") + why.what()));
  }
  client_.reset();
  hub_.reset();
}

void Session::Core::set_up() {
  client_ = std::make_unique<Client>(options_, poller_, *this);
  if (options_.rank.value() > 0) return client_->dial();
  hub_ = std::make_unique<Hub>(options_, poller_, random_epoch());
  hub_->open();
  client_->join_own(hub_->connect_own());
}

void Session::Core::loop() {
  while (!stopping_) {
    auto wake = client_->wake_at();
    if (hub_) wake = std::min(wake, hub_->wake_at());
    poller_.wait(until(wake));
    run_mail();
    auto now = Clock::now();
    if (hub_) hub_->tick(now);
    client_->tick(now);
  }
}

void Session::Core::drain() {
  if (!hub_) return;
  auto limit = Clock::now() + kLastWords;
  while (!hub_->is_drained() && Clock::now() < limit) poller_.wait(kDrainStep);
}

void Session::Core::run_mail() {
  std::vector<UniqueFunction<void()>> mail;
  {
    std::lock_guard lock(mutex_);
    mail.swap(mail_);
  }
  for (auto& work : mail) work();
}

void Session::Core::post(UniqueFunction<void()> work) {
  {
    std::lock_guard lock(mutex_);
    mail_.push_back(std::move(work));
  }
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = write(wake_fd_.get(), &one, sizeof one);
}

void Session::Core::stop() {
  if (!thread_.joinable()) return;
  post([this] { stopping_ = true; });
  thread_.join();
}

void Session::Core::check_caller() const {
  TAXON_CHECK(std::this_thread::get_id() != thread_.get_id(), "a blocking call on the session's own thread");
}

void Session::Core::joined(Client::Membership membership) {
  membership_ = std::move(membership);
  std::lock_guard lock(mutex_);
  joined_ = true;
  changed_.notify_all();
}

void Session::Core::join_failed(const Error& error) { broke(error); }

void Session::Core::broke(const Error& error) {
  std::lock_guard lock(mutex_);
  if (!broken_) broken_ = error;
  changed_.notify_all();
}

void Session::Core::happened(const Event& event) {
  {
    std::lock_guard lock(mutex_);
    if (is_fatal(event) && !failure_) failure_ = event;
    if (is_fatal(event) && !joined_ && !broken_) broken_ = error_of(event);
    changed_.notify_all();
  }
  if (handler_)
    handler_(event);
  else
    backlog_.push_back(event);
}

void Session::Core::exchanged(std::vector<std::vector<std::byte>> parts) {
  std::lock_guard lock(mutex_);
  result_ = std::move(parts);
  changed_.notify_all();
}

void Session::Core::clock_measured(std::int64_t offset_ns) {
  clock_offset_.store(offset_ns, std::memory_order_relaxed);
}

void Session::Core::ended() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void Session::Core::on_event(std::function<void(const Event&)> handler) {
  post([this, handler = std::move(handler)] {
    handler_ = handler;
    std::vector<Event> backlog;
    if (handler_) backlog.swap(backlog_);
    for (const Event& event : backlog) handler_(event);
  });
}

std::optional<Event> Session::Core::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

std::vector<std::vector<std::byte>> Session::Core::exchange(const std::string& what,
                                                            std::span<const std::byte> bytes) {
  check_caller();
  post([this, what, data = std::vector<std::byte>(bytes.begin(), bytes.end())]() mutable {
    client_->exchange(what, std::move(data));
  });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return result_ || failure_ || broken_ || ended_; });
  if (result_) {
    auto parts = std::move(*result_);
    result_.reset();
    return parts;
  }
  if (failure_) throw error_of(*failure_);
  if (broken_) throw *broken_;
  throw Error(ErrorKind::Internal, "exchange '" + what + "' after the session has ended");
}

void Session::Core::report_waits(std::vector<ReportedWait> waits) {
  post([this, waits = std::move(waits)] { client_->report(waits); });
}

void Session::Core::set_expendable(std::vector<Rank> ranks) {
  post([this, ranks = std::move(ranks)] {
    if (hub_) hub_->set_expendable(ranks);
  });
}

void Session::Core::request_stop() {
  post([this] { client_->request_stop(); });
}

void Session::Core::abort(ErrorKind kind, const std::string& message) {
  check_caller();
  if (!thread_.joinable()) return;
  post([this, kind, message] { client_->abort(kind, message); });
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLastWords, [this] { return ended_ || broken_; });
  }
  stop();
}

void Session::Core::leave() {
  check_caller();
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    if (failure_) throw error_of(*failure_);
  }
  post([this] { client_->say_goodbye(); });
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || failure_ || broken_; });
    if (failure_) throw error_of(*failure_);
    if (!ended_ && broken_) throw *broken_;
  }
  stop();
}

}  // namespace taxon::control
