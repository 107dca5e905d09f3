#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "control/client.h"
#include "control/hub.h"
#include "control/session.h"

namespace taxon::control {

/// The session's thread and what it shares with its callers.
class Session::Core final : public Client::Host {
 public:
  explicit Core(JoinOptions options);
  ~Core();

  void join();
  const JoinOptions& options() const { return options_; }
  const Client::Membership& membership() const { return membership_; }
  std::int64_t clock_offset() const { return clock_offset_.load(std::memory_order_relaxed); }
  void on_event(std::function<void(const Event&)> handler);
  std::optional<Event> failure() const;
  std::vector<std::vector<std::byte>> exchange(const std::string& what, std::span<const std::byte> bytes);
  void report_waits(std::vector<ReportedWait> waits);
  void request_stop();
  void set_expendable(std::vector<Rank> ranks);
  void abort(ErrorKind kind, const std::string& message);
  void leave();

 private:
  void joined(Client::Membership membership) override;
  void join_failed(const Error& error) override;
  void happened(const Event& event) override;
  void exchanged(std::vector<std::vector<std::byte>> parts) override;
  void clock_measured(std::int64_t offset_ns) override;
  void ended() override;

  void run();
  void set_up();
  void loop();
  void drain();
  void broke(const Error& error);
  void post(UniqueFunction<void()> work);
  void run_mail();
  void stop();
  void check_caller() const;

  const JoinOptions options_;
  Fd wake_fd_;

  // The session's thread only.
  Poller poller_;
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<Client> client_;
  std::function<void(const Event&)> handler_;
  std::vector<Event> backlog_;
  bool stopping_ = false;

  std::atomic<std::int64_t> clock_offset_{0};
  Client::Membership membership_;  // written before `joined_`, constant afterwards
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_.
  bool joined_ = false;
  bool ended_ = false;
  std::optional<Error> broken_;  // the join failed, or the thread ended in an error
  std::optional<Event> failure_;
  std::optional<std::vector<std::vector<std::byte>>> result_;
  std::vector<UniqueFunction<void()>> mail_;

  std::thread thread_;
};

}  // namespace taxon::control
