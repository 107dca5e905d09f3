// A network of one's own, as one rank of its launcher's job: 11_your_own_network RECIPE [KEY.PATH=VALUE...]
#include <taxon/error.h>
#include <taxon/train_module.h>
#include <torch/torch.h>

#include <iostream>

int main(int argc, char** argv) try {
  using namespace torch::nn;
  taxon::Job job = taxon::Job::from_environment(
      taxon::read_recipe(argc > 1 ? argv[1] : "", {argv + std::min(argc, 2), argv + argc}));
  const taxon::TrainingInputs inputs = open_training_data(job);
  Sequential net(Conv2d(Conv2dOptions(1, 16, 3).padding(1)), ReLU(), MaxPool2d(2),
                 Conv2d(Conv2dOptions(16, 32, 3).padding(1)), ReLU(), MaxPool2d(2), Flatten(),
                 Linear(32 * 7 * 7, 10));
  const auto loss = [](const torch::Tensor& outputs, const torch::Tensor& targets) {
    return functional::cross_entropy(outputs, targets);
  };
  const taxon::Outcome outcome = train(job, net, loss, inputs.datasets);
  job.leave();
  std::cout << "rank " << job.rank() << ": accuracy " << outcome.test.scores["accuracy"] << "\n";
} catch (const taxon::Error& error) {
  std::cerr << error.what() << "\n";
  return exit_code(error.kind());
}
