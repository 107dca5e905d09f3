// A network and a loop of one's own, as one rank of its launcher's job: 09_your_own_loop RECIPE
// [KEY.PATH=VALUE...]
#include <taxon/data_parallel.h>
#include <taxon/error.h>
#include <torch/torch.h>

#include <iostream>

int main(int argc, char** argv) try {
  taxon::Job job = taxon::Job::from_environment(
      taxon::read_recipe(argc > 1 ? argv[1] : "", {argv + std::min(argc, 2), argv + argc}));
  torch::manual_seed(1);  // the same data on every rank
  const torch::Tensor x = torch::randn({1000, 8}), y = x.pow(2).sum(1, true);
  torch::nn::Sequential net(torch::nn::Linear(8, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  taxon::DataParallel model(job, net, {.samples = x.size(0)});
  while (model.active()) {
    const auto share = torch::tensor(at::ArrayRef(model.share().data(), model.share().size()));
    torch::mse_loss(model.forward(x.index({share})), y.index({share})).backward();
    model.step();
  }
  std::cout << "loss " << torch::mse_loss(model.forward(x), y).item<double>() << "\n";
} catch (const taxon::Error& error) {
  std::cerr << error.what() << "\n";
  return exit_code(error.kind());
}
