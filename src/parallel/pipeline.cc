#include "parallel/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "program/check.h"

namespace taxon::parallel {

std::vector<SegmentCost> segments_of(const Network& network, const PipelineInput& input, int micros) {
  const double samples = static_cast<double>(input.batch) / micros, element = input.element_bytes * samples;
  std::vector<SegmentCost> segments;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const double weights = input.element_bytes * static_cast<double>(parameters(layer));
    const double outputs = element * static_cast<double>(layer.outputs);
    // Pooling between two layers is in their shapes alone, and goes before what travels.
    const std::int64_t taken = i + 1 < network.layers.size() ? network.layers[i + 1].exchanged : 0;
    const double travels = taken > 0 ? element * static_cast<double>(taken) : outputs;
    segments.push_back({.name = layer.name,
                        .compute = training_flops(layer) * samples / input.flops,
                        .weight_bytes = weights,
                        .state_bytes = input.state_elements * weights,
                        .activation_bytes = outputs,
                        .output_bytes = std::min(outputs, travels)});
  }
  return segments;
}

Pipeline plan_pipeline(const Network& network, const program::Program& program, const PipelineInput& input) {
  if (input.batch % program.micros != 0)
    throw Error(ErrorKind::Usage,
                fmt::format("{} micro-batches do not divide a batch of {}", program.micros, input.batch));
  const std::vector<SegmentCost> segments = segments_of(network, input, program.micros);
  const int chunks = program.stages / static_cast<int>(program.ranks.size());
  CutOptions options{.stages = program.stages,
                     .bandwidth = input.bandwidth,
                     .latency = input.latency,
                     .memory = input.memory / chunks};
  for (const program::StageMemory& stage : program::stage_memory(program)) {
    options.held.push_back(stage.activations);
    options.versions.push_back(stage.versions);
  }
  Pipeline pipeline{.stages = cut_stages(segments, options)};
  for (const StageUse& stage : pipeline.stages) {
    program::StageCost cost{.forward = stage.compute / 3,
                            .backward_input = stage.compute / 3,
                            .backward_weight = stage.compute / 3};
    for (int i = stage.first; i <= stage.last; ++i) {
      const SegmentCost& segment = segments[static_cast<std::size_t>(i)];
      cost.activation_bytes += segment.activation_bytes;
      cost.weight_bytes += segment.weight_bytes;
      cost.state_bytes += segment.state_bytes;
    }
    if (options.bandwidth > 0)
      cost.transfer =
          options.latency + segments[static_cast<std::size_t>(stage.last)].output_bytes / options.bandwidth;
    pipeline.costs.push_back(cost);
  }
  pipeline.timeline = program::evaluate(program, pipeline.costs);
  return pipeline;
}

}  // namespace taxon::parallel
