// A layer of one's own, divided over members by a rule of one's own (channels.h), as one rank of its
// launcher's job: 12_your_own_split RECIPE [KEY.PATH=VALUE...]
#include <taxon/error.h>
#include <taxon/train_module.h>
#include <torch/torch.h>

#include <cstdio>
#include <iostream>

#include "channels.h"

const taxon::parallel::SplitRow kSplits[] = {channels()};
const taxon::parallel::LayerKind kLayers[] = {depthwise()};
const taxon::Extensions kOwn{.splits = kSplits, .layer_kinds = kLayers};

int main(int argc, char** argv) try {
  using namespace torch::nn;
  const taxon::Plan plan =
      taxon::read_recipe(argc > 1 ? argv[1] : "", {argv + std::min(argc, 2), argv + argc}, kOwn);
  taxon::Job job = taxon::Job::from_environment(plan, {.own = kOwn});
  const taxon::TrainingInputs inputs = open_training_data(job);
  torch::manual_seed(1);
  Sequential net(Conv2d(Conv2dOptions(1, 8, 3).padding(1)), ReLU(), MaxPool2d(2), Depthwise(8), ReLU(),
                 Conv2d(Conv2dOptions(8, 16, 1)), ReLU(), MaxPool2d(2), Flatten(), Linear(16 * 7 * 7, 10));
  const taxon::Outcome outcome = train(job, net, inputs.datasets);
  job.leave();
  std::printf("loss %.15g\n", outcome.test.loss);
} catch (const taxon::Error& error) {
  std::cerr << error.what() << "\n";
  return exit_code(error.kind());
}
