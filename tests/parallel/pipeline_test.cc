#include "parallel/pipeline.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "program/schedule.h"

namespace taxon::parallel {
namespace {

program::Program program_of(std::string_view row, int stages, int micros) {
  return program::make_program(program::find_schedule(row), {stages, micros});
}

TEST(Pipeline, OfOneStageTakesTheNetworksTime) {
  const Network vgg = make_network(find_network("vgg-a"));
  const Pipeline pipeline =
      plan_pipeline(vgg, program_of("data_parallel", 1, 2), {.batch = 8, .flops = 1e12});
  EXPECT_NEAR(pipeline.timeline.seconds, training_flops(vgg) * 8 / 1e12, 1e-9);
  EXPECT_GE(pipeline.timeline.ranks[0].peak_bytes, 3 * 4.0 * static_cast<double>(parameters(vgg)));
}

TEST(Pipeline, SendsWhatPoolingLeaves) {
  const Network vgg = make_network(find_network("vgg-a"));
  const PipelineInput input{.batch = 1, .flops = 1e12};
  const std::vector<SegmentCost> segments = segments_of(vgg, input, 1);
  for (std::size_t i = 0; i + 1 < segments.size(); ++i)
    EXPECT_EQ(segments[i].output_bytes, 4.0 * static_cast<double>(vgg.layers[i + 1].exchanged)) << i;
  EXPECT_EQ(4 * segments[3].output_bytes, segments[3].activation_bytes);  // conv4
  const std::vector<SegmentCost> blocks = segments_of(make_network(find_network("gpt")), input, 1);
  EXPECT_EQ(blocks[1].output_bytes, blocks[1].activation_bytes);  // attention names no input
}

TEST(Pipeline, IsFasterTheMoreStagesThereAre) {
  const Network gpt = make_network(find_network("gpt"));
  const PipelineInput input{.batch = 32, .flops = 1e13, .bandwidth = 1e10};
  double before = plan_pipeline(gpt, program_of("data_parallel", 1, 16), input).timeline.seconds;
  for (int stages : {2, 4}) {  // a third of the work is logits, which are one layer
    const double now = plan_pipeline(gpt, program_of("1f1b", stages, 16), input).timeline.seconds;
    EXPECT_LT(now, 0.75 * before) << stages;
    before = now;
  }
}

TEST(Pipeline, HasRoomFor1F1BWhereGPipeHasNone) {
  const Network gpt = make_network(find_network("gpt"));
  PipelineInput input{.batch = 64, .flops = 1e13};
  double most = 0;
  for (const auto& rank : plan_pipeline(gpt, program_of("1f1b", 4, 32), input).timeline.ranks)
    most = std::max(most, rank.peak_bytes);
  input.memory = 1.05 * most;
  EXPECT_NO_THROW(plan_pipeline(gpt, program_of("1f1b", 4, 32), input));
  EXPECT_THROW(plan_pipeline(gpt, program_of("gpipe", 4, 32), input), Error);
}

TEST(Pipeline, RefusesAPartOfAMicroBatch) {
  EXPECT_THROW(
      plan_pipeline(make_network(find_network("vgg-a")), program_of("gpipe", 2, 3), {.batch = 8, .flops = 1}),
      Error);
}

}  // namespace
}  // namespace taxon::parallel
