#pragma once

#include <functional>
#include <memory>
#include <string>

#include "data/storage.h"
#include "job/run_folder.h"
#include "report/bucket_lines.h"
#include "report/summary.h"
#include "train/observer.h"

namespace taxon::job {

struct OutputsOptions;

/// Turns what a run says into its output folder and its progress on the terminal. Rank 0's writes; the
/// others' only listen. Lines of metrics.jsonl and TensorBoard's points are written four times a second at
/// most, and always before a test's, a checkpoint, the end, and when this dies.
class Outputs final : public train::Observer {
 public:
  enum class Role { Writer, Listener };
  enum class Terminal { Live, Plain };

  Outputs(data::Storage& storage, OutputsOptions options);
  ~Outputs() override;

  void started(const train::RunInfo& info) override;
  void stepped(const train::StepReport& report) override;
  void evaluated(const train::Evaluation& evaluation) override;
  void saved(const std::string& path) override;
  void noticed(const std::string& sentence) override;

  /// Writes summary.json last and prints the result, in words or as summary.json has it. `seconds`: wall time
  /// of the whole run.
  void finish(const train::Outcome& outcome, const report::CoreUse& cores, double seconds);

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;  // null for listeners
};

/// A task's scores as reports have them.
std::vector<report::Score> scores_of(const model::Scores& scores);
std::vector<report::CodecUse> codec_uses(const train::Outcome& outcome);

struct OutputsOptions {
  std::string folder;
  RunFolder* run = nullptr;  // hears when the run begins and has a checkpoint; outlives the outputs
  Outputs::Role role = Outputs::Role::Listener;
  Outputs::Terminal terminal = Outputs::Terminal::Plain;
  bool colour = false;
  report::Detail detail = report::Detail::Screen;          // of the buckets
  enum class Result { Text, Json } result = Result::Text;  // on stdout, at the end
};

}  // namespace taxon::job
