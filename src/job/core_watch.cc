#include "job/core_watch.h"

#include <fmt/format.h>

namespace taxon::job {
namespace {

/// Long enough for the kernel's time slices to even out, short enough to lose little.
constexpr Duration kWindowTime = from_seconds(0.5);
constexpr std::int64_t kWindowSteps = 2;

}  // namespace

CoreWatch::CoreWatch(train::Observer& next, CoreWatchOptions options)
    : next_(next), options_(std::move(options)), openmp_(options_.cores) {
  // A thread alone waits for no team.
  if (options_.threads > 1 && options_.waiting == plan::ThreadWaiting::Passive)
    openmp_.set(launch::Waiting::Passive);
}

bool CoreWatch::chooses() const {
  return options_.threads > 1 && options_.waiting == plan::ThreadWaiting::Auto && !refused_ &&
         !launch::OpenMpWaiting::is_given();
}

void CoreWatch::started(const train::RunInfo& info) {
  next_.started(info);
  options_.pressure();  // what came before is no step's
}

void CoreWatch::stepped(const train::StepReport& report) {
  next_.stepped(report);
  ++steps_;
  time_ += report.step_time;
  if (time_ >= kWindowTime && steps_ >= kWindowSteps) close_window();
}

void CoreWatch::close_window() {
  const double speed = static_cast<double>(steps_) / to_seconds(time_);
  steps_ = 0;
  time_ = Duration(0);
  const std::optional<launch::ThreadTime> time = options_.pressure();
  if (!time) return;
  if (!total_) total_.emplace();
  total_->running += time->running;
  total_->queued += time->queued;
  follow(speed, launch::queued_share(*time));
}

void CoreWatch::follow(double speed, double share) {
  auto say = [this](const std::string& line) {
    if (options_.say) options_.say(line);
  };
  if (!chooses()) {
    if (share >= report::CoreUse::kBusyShare && !told_busy_)
      say(fmt::format("the cores are busy: {} (other programs, or a quota)",
                      launch::describe_pressure(share)));
    told_busy_ = told_busy_ || share >= report::CoreUse::kBusyShare;
    return;
  }
  const launch::Waiting before = openmp_.now(), wanted = choice_.after(speed, share);
  if (wanted != before && openmp_.set(wanted) != wanted) {
    refused_ = true;
    say("the cores are busy, and the system refuses the threads that would let compute wait passively");
    return;
  }
  if (choice_.tries() || wanted == told_) return;
  told_ = wanted;
  ++changes_;
  say(wanted == launch::Waiting::Passive
          ? fmt::format(
                "the cores are busy: {}; compute threads now sleep until their next work (waiting: passive)",
                launch::describe_pressure(share))
          : std::string(
                "the cores are free again: compute threads poll for their next work (waiting: active)"));
}

report::CoreUse CoreWatch::use() const {
  report::CoreUse use;
  use.threads = options_.threads;
  use.waiting = launch::OpenMpWaiting::is_given() ? "given" : to_string(openmp_.now());
  if (total_) use.queued_share = launch::queued_share(*total_);
  use.changes = changes_;
  return use;
}

}  // namespace taxon::job
