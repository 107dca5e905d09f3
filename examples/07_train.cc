// Trains a recipe as one rank of whatever job its launcher says: 07_train RECIPE [KEY.PATH=VALUE...]
#include <taxon/error.h>
#include <taxon/train.h>

#include <iostream>

struct Progress final : taxon::Observer {
  void started(const taxon::RunInfo& run) override { std::cout << run.parameters << " parameters\n"; }
  void stepped(const taxon::StepReport& step) override { std::cout << "loss " << step.loss << "\n"; }
  void evaluated(const taxon::Evaluation&) override {}
  void saved(const std::string&) override {}
  void noticed(const std::string& sentence) override { std::cerr << sentence << "\n"; }
};

int main(int argc, char** argv) try {
  const taxon::Plan plan =
      taxon::read_recipe(argc > 1 ? argv[1] : "", {argv + std::min(argc, 2), argv + argc});
  taxon::Job job = taxon::Job::from_environment(plan);
  taxon::TrainingInputs inputs = open_training_inputs(job);
  Progress progress;
  const taxon::Outcome outcome = train(job, *inputs.model, inputs.datasets, progress);
  job.leave();
  std::cout << "rank " << job.rank() << ": accuracy " << outcome.test.scores["accuracy"] << "\n";
} catch (const taxon::Error& error) {
  std::cerr << error.what() << "\n";
  return exit_code(error.kind());
}
