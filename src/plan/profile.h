#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace taxon::plan {

struct Plan;

/// What a model costs, so that training can be simulated without it: measured by `taxon profile`, or counted.
/// Plain data like Plan: keys, sentences and bounds of each field stand in plan/profile_fields.h. Times are
/// in seconds, of one pass of `batch` samples; operations are of one sample.

struct ParameterProfile {
  std::string name;  // as in the framework
  std::vector<std::int64_t> shape;
  bool trainable = true;
  double gradient_from = 0;  // from the start of the backward pass until its first elements are final
  double gradient = 0;       // until all are; 0: with the segment's backward pass
  bool linear = false;       // the weight of a linear layer that sees each sample once
  friend bool operator==(const ParameterProfile&, const ParameterProfile&) = default;
};

/// A consecutive part of the forward pass.
struct SegmentProfile {
  std::string name;
  double forward = 0, backward = 0;
  double forward_flops = 0, backward_flops = 0;  // backward 0: twice the forward pass's
  std::vector<ParameterProfile> parameters;
  std::int64_t outputs = 0;  // numbers of a sample that go on to the next segment; 0: not known, or the loss
  friend bool operator==(const SegmentProfile&, const SegmentProfile&) = default;
};

struct ModelProfile {
  std::string model;                // as model.name, or its file's name without folder and ending
  std::string source;               // where the figures come from: a machine, a paper
  std::int64_t batch = 0;           // samples of one forward and backward pass; 0: counted, not measured
  DType compute = DType::Float32;   // what it was measured in
  int threads = 0;                  // with so many; 0: counted
  int tensor = 1;                   // mesh.tensor: above 1 layers are the part that one member has
  bool divisible = true;            // its backward pass can be taken segment by segment
  std::vector<std::int64_t> input;  // shape of one sample
  int classes = 0;
  double update = 0;                     // seconds of the optimiser's update of all parameters
  double read = 0;                       // seconds of reading a batch; 0: not measured
  std::vector<std::int64_t> buffers;     // elements of each buffer (batch-norm statistics)
  std::vector<std::string> completion;   // trained parameters in the order in which gradients complete;
                                         // empty: the reverse of the segments'
  std::vector<SegmentProfile> segments;  // in forward order
  friend bool operator==(const ModelProfile&, const ModelProfile&) = default;
};

std::int64_t parameter_count(const ModelProfile& profile);
/// True if it holds times, false if it holds operations.
bool is_measured(const ModelProfile& profile);
/// Names the model by the names and shapes of its parameters: 16 hex digits. Equal for profiles of one model.
std::string fingerprint(const ModelProfile& profile);

/// Everything that is wrong with the profile by itself, one line each. Empty: it is sound.
std::vector<std::string> profile_problems(const ModelProfile& profile);

/// Why the profile says nothing about this plan: another model, batch or type. Empty: it does.
std::vector<std::string> profile_mismatches(const ModelProfile& profile, const Plan& plan, int world_size);
/// Samples of one forward and backward pass: the largest share of a worker, cut into micro-batches.
std::int64_t pass_samples(const Plan& plan, int world_size);

/// Throws Error{Usage} that lists everything wrong with the text and the profile, with line numbers where
/// there are any. `origin` names the text in messages.
ModelProfile parse_profile(const std::string& yaml, const std::string& origin);
ModelProfile read_profile(const std::string& path);
/// As YAML that parse_profile() reads back.
std::string write_profile(const ModelProfile& profile);

}  // namespace taxon::plan
