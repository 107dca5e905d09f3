#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "comm/communicator.h"
#include "exchange/extensions.h"
#include "job/process.h"
#include "plan/plan.h"
#include "task/task.h"

namespace taxon::job {

struct JobOptions {
  /// Lines for the log: what is waited for, silent ranks, hang reports. Any thread. Empty: nobody hears them.
  std::function<void(const std::string&)> say;
  /// Set from outside (a signal): joining ends with Error{Interrupted}, and a training run in order. Outlives
  /// the job. Null: nobody asks.
  const std::atomic<bool>* stop = nullptr;
  /// What the plan names beside rows of the tables.
  exchange::Extensions own = {};
};

/// This process as one rank of a job of many. All ranks make the same calls in the same order, each on one
/// thread. A call that fails throws the Error that names the first culprit, on every rank, and the job is
/// over then: other calls throw Error{Usage}. A program that fails by itself and catches that says fail().
class Job {
 public:
  /// Joins the job that the launcher started this process for: torchrun, mpirun, srun, `taxon launch`, or
  /// plain RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; without any of them it is a job of one rank. The
  /// secret is the plan's control.secret_file, TAXON_SECRET or TAXON_SECRET_FILE. Blocks until all ranks are
  /// there; `plan` is equal at all of them. Throws Error: Usage for an environment that makes no sense, else
  /// as Process.
  static Job from_environment(const plan::Plan& plan = {}, JobOptions options = {});
  Job(Job&& other) noexcept;
  /// Leaves, if leave() was not called: without a word of what fails then. While an exception unwinds the
  /// stack the other ranks are told that this one failed.
  ~Job();

  int rank() const;
  int size() const;
  const plan::Plan& plan() const;
  const JobOptions& options() const;
  const launch::Identity& identity() const;

  /// `values` := their sum over all ranks, the same bits everywhere. Of equal size at every rank:
  /// Error{Mismatch}.
  void all_reduce(std::span<float> values);
  void all_reduce(std::span<double> values);
  /// Nobody returns before all have called it.
  void barrier();

  /// The group of all ranks, for tasks that run() is given.
  comm::Communicator& world();
  /// The rank's doors.
  Process& process();
  /// Runs a task on this thread until it is done.
  void run(task::Task<void> task);
  /// Whom fail() tells from now on while a task runs on another thread, which has the job to itself; null:
  /// nobody.
  void lend(std::function<void(const Error&)> fail);

  /// Waits for the other ranks and says goodbye, so that the end of this process is no loss. Nothing else may
  /// be called afterwards.
  void leave();
  /// Tells the others that this rank fails, and why; the job is over. What was over is over already. While a
  /// loop of the program's runs on it, they hear of it when the loop gives its step back, or ends.
  void fail(const Error& error);

 private:
  struct Core;
  explicit Job(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace taxon::job
