#pragma once

#include "job/job.h"
#include "train/observer.h"

namespace taxon::job {

/// Hears of a run what its program should know, and tells it where the job's lines go. The options outlive
/// it.
class Notices final : public train::Observer {
 public:
  explicit Notices(const JobOptions& options) : options_(options) {}
  void started(const train::RunInfo&) override {}
  void stepped(const train::StepReport&) override {}
  void evaluated(const train::Evaluation&) override {}
  void saved(const std::string&) override {}
  void noticed(const std::string& sentence) override {
    if (options_.say) options_.say(sentence);
  }

 private:
  const JobOptions& options_;
};

}  // namespace taxon::job
