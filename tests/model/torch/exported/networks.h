#pragma once

#include <string>
#include <vector>

namespace taxon::model::exported {

/// A network that make_networks.py exported, and what PyTorch made of it.
struct Reference {
  struct Input {
    std::vector<long> shape;  // without the batch
    long below = 0;           // words below this; 0: numbers; -1: flags
  };
  struct Summary {
    std::string name;
    double norm = 0, first = 0, last = 0;
  };
  std::string name, path;
  std::vector<Input> inputs;
  double rate = 0;
  bool is_double = false;
  bool is_random = false;                   // nothing is known of its training
  double evaluation = 0;                    // loss before training
  double loss = 0;                          // of the first step
  double trained = 0;                       // after 100 steps
  std::vector<Summary> gradients, buffers;  // of the first step, and after it
};

/// All of them, by name.
std::vector<Reference> references();
std::string path_of(const std::string& name);

}  // namespace taxon::model::exported
