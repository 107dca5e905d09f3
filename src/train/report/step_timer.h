#pragma once

#include "comm/runtime.h"
#include "train/stepper.h"

namespace taxon::train {

/// What training took of this rank since this process began with it: time, step by step, and bytes that it
/// sent. Tests, checkpoints and what else stands between steps can be left out.
class StepTimer {
 public:
  explicit StepTimer(comm::Runtime& runtime) : runtime_(runtime) {}

  Instant now() const { return runtime_.executor().now(); }
  /// What is sent counts from here on.
  void begin_bytes() { first_byte_ = bytes_sent(); }
  /// The first step begins.
  void begin_steps() { step_begin_ = now(); }
  /// Since then this rank waited for its samples.
  void waited_for_data(Instant since) { data_wait_ = now() - since; }
  /// Since then it met others; the next step's exposed communication.
  void met(Instant since) { met_ += now() - since; }
  /// What was since then is no training.
  void leave_out(Instant since) { step_begin_ += now() - since; }
  void leave_out(std::uint64_t bytes) { first_byte_ += bytes; }
  /// The step ends, and the next begins: its times.
  void end_step(const Stepper::Done& done, StepReport& report);

  /// In steps.
  Duration trained() const { return trained_; }
  std::uint64_t bytes() const { return bytes_sent() - first_byte_; }

 private:
  std::uint64_t bytes_sent() const { return runtime_.transport.traffic().bytes_sent; }

  comm::Runtime& runtime_;
  std::uint64_t first_byte_ = 0;
  Instant step_begin_;
  Duration trained_{0};
  Duration data_wait_{0};
  Duration met_{0};  // since the step before
};

}  // namespace taxon::train
