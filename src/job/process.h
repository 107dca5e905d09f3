#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/failure_monitor.h"
#include "comm/runtime.h"
#include "control/session.h"
#include "job/last_resort.h"
#include "launch/identity.h"
#include "launch/note.h"
#include "net/loopback/loopback.h"
#include "net/process_transport.h"
#include "plan/plan.h"
#include "task/poll_loop.h"
#include "tensor/cpu_device.h"

namespace taxon::job {

struct ProcessOptions {
  launch::Identity identity;
  control::Secret secret;
  std::string version;
  const std::atomic<bool>* stop = nullptr;
  /// Lines for the log: what is waited for, silent ranks, hang reports. Any thread.
  std::function<void(const std::string&)> say;
  /// Ranks that the others can do without: exchange::expendable_ranks() of a run that goes on after a loss.
  std::vector<Rank> expendable;
  /// Of the launcher that started this rank, if it has one.
  std::optional<launch::Note> note;
  /// A rank without others computes on the thread of run(). Not where kernels wait for what that thread does,
  /// as those of a program's own loop.
  bool alone_computes_here = false;
};

/// The real doors of this process's rank: the poll loop, the transport, the device, and the control session
/// that watches over them.
class Process {
 public:
  /// Joins the job; blocks until all ranks are there. A single rank joins nobody. Throws Error{Rendezvous,
  /// Transport}, which the others are told if they have met; PeerLost, naming it, if a rank dies meanwhile;
  /// Resources if it may not start its threads.
  Process(const plan::Plan& plan, ProcessOptions options);
  ~Process();

  comm::Runtime& runtime() { return *runtime_; }
  /// Cores that its ranks may use, as long as they are not bound to shares of them.
  int cores() const { return static_cast<int>(cores_.size()); }
  /// Compute threads of this rank: what the plan says, or its share of the cores among all ranks that may use
  /// them, whether their launchers know of each other or not.
  int threads() const { return threads_; }
  /// Whether it is the first rank of its machine, which speaks for it.
  bool is_first_of_machine() const { return me_ == 0; }
  /// Of workers that the others do without.
  comm::FailureMonitor& failures() { return failures_; }
  /// What to add to this rank's times to get rank 0's.
  Duration clock_offset() const { return clock_offset_; }

  /// Runs `main` as this rank, any number of times. When it fails, tells the others why and throws the error
  /// that names the first culprit; then nothing else may be called.
  void run(task::Task<void> main);
  /// Says goodbye, so that the end of this process is no loss. Fails as run(). Nothing else may be called
  /// afterwards.
  void leave();
  /// Tells the others that this rank fails, and why, unless run() or leave() has told them how it ends.
  /// Nothing else may be called afterwards.
  void abandon(const Error& why);
  /// Whether run() waits for what the program computes on a thread of its own, and so can't be unwound before
  /// that is done, however long it takes. Any thread.
  void wait_for_program(bool waits);

 private:
  void join(const plan::Plan& plan);
  void open_transport(const plan::Plan& plan);
  void count_neighbours(const plan::Plan& plan);
  void bind(const plan::Plan& plan);
  void open_device(const plan::Plan& plan);
  void begin();
  void on_event(const control::Event& event);
  task::Task<void> guard(task::Task<void> main);
  task::Task<void> watch(task::PendingOps* waits);
  [[noreturn]] void fail(const Error& error);
  bool computes_here() const { return options_.alone_computes_here && options_.identity.world_size == 1; }

  ProcessOptions options_;
  task::PollLoop loop_;
  task::PendingOps pending_;
  comm::FlightRecorder recorder_;
  comm::FailureMonitor failures_;
  LastResort last_resort_;  // used by the session's thread
  std::unique_ptr<control::Session> session_;
  std::unique_ptr<net::LoopbackWorld> alone_;
  std::unique_ptr<net::ProcessTransport> transport_;
  std::unique_ptr<tensor::CpuDevice> device_;
  std::unique_ptr<comm::Runtime> runtime_;
  std::vector<int> cores_;
  /// What the ranks of this machine may use, in their order, whatever containers they are in; this one's
  /// place.
  std::vector<std::vector<int>> neighbours_;
  int me_ = 0;
  int sharers_ = 1;  // ranks that may use this one's cores, itself included
  int threads_ = 1;
  bool told_ = false;        // the others know how this rank ends
  std::optional<int> core_;  // of the thread that communicates; none: it has no own
  Duration clock_offset_{0};
};

}  // namespace taxon::job
