// The built-in models against plain autograd: the same network, built beside the model from the same seed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "model/bench.h"
#include "model/torch/framework.h"
#include "model/torch/network.h"
#include "model/torch/torch_model.h"
#include "parallel/network.h"
#include "support/distance.h"

namespace taxon::model {
namespace {

using test::norm;
using test::relative_distance;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const data::SampleShape kSmall{{1, 12, 12}, 5};

ModelContext context_of(const plan::ModelPlan& plan, const data::SampleShape& shape, DType compute) {
  return {.plan = &plan, .shape = shape, .compute = compute, .seed = 11};
}

std::unique_ptr<Model> make(const std::string& name, DType compute = DType::Float32,
                            std::vector<std::string> frozen = {}, const data::SampleShape& shape = kSmall,
                            plan::MemoryFormat memory_format = plan::MemoryFormat::Auto) {
  plan::ModelPlan plan{.name = name, .frozen = std::move(frozen), .memory_format = memory_format};
  return make_model(context_of(plan, shape, compute));
}

/// Gradients of the mean cross entropy by plain autograd, by parameter name.
struct Reference {
  Reference(const std::string& name, const Samples& samples, DType compute, const data::SampleShape& shape) {
    model = make(name, compute, {}, shape);
    network = &dynamic_cast<TorchModel&>(*model).network();
    network->set_mode(Mode::Train);
    std::vector<std::int64_t> sizes = shape.input;
    sizes.insert(sizes.begin(), static_cast<std::int64_t>(samples.labels.size()));
    at::Tensor inputs =
        at::from_blob(const_cast<float*>(samples.inputs.data()), sizes, at::kFloat).to(scalar_type(compute));
    at::Tensor labels = at::from_blob(const_cast<std::int64_t*>(samples.labels.data()),
                                      {static_cast<std::int64_t>(samples.labels.size())}, at::kLong);
    at::Tensor logits = inputs;
    for (std::size_t stage = 0; stage < network->stages().size(); ++stage)
      logits = network->forward(static_cast<int>(stage), logits);
    at::Tensor loss = at::cross_entropy_loss(logits, labels);
    loss.backward();
    loss_mean = loss.item<double>();
    correct = logits.argmax(1).eq(labels).sum().item<std::int64_t>();
  }
  std::vector<double> gradient(const at::Tensor& parameter) const {
    at::Tensor wide = parameter.grad().to(at::kDouble).contiguous();
    return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
  }
  std::unique_ptr<Model> model;
  Network* network = nullptr;  // its, which nothing but plain autograd goes through
  double loss_mean = 0;
  std::int64_t correct = 0;
};

ErrorKind kind_of(const std::function<void()>& body, std::string* message = nullptr) {
  try {
    body();
  } catch (const Error& error) {
    if (message) *message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::Internal;
}

struct GradientCase {
  std::string model;
  DType type;
  double tolerance;
  plan::MemoryFormat format = plan::MemoryFormat::Auto;
  int channels = 1;
  data::SampleShape shape() const { return {{channels, kSmall.input[1], kSmall.input[2]}, kSmall.classes}; }
};
/// Weights are those of the shapes by which splits and schedules are computed.
TEST(Published, HaveTheirShapes) {
  const std::map<std::string, data::SampleShape> shapes = {{"alexnet", {{3, 224, 224}, 1000}},
                                                           {"vgg-a", {{3, 224, 224}, 1000}},
                                                           {"overfeat-fast", {{3, 231, 231}, 1000}},
                                                           {"cd-dnn", {{429}, 9304}}};
  for (const auto& [name, shape] : shapes) {
    const auto model = make(name, DType::Float32, {}, shape);
    const ModelSpec& spec = model->spec();
    const parallel::Network network = parallel::make_network(parallel::find_network(name));
    std::vector<std::string> names, published;
    std::vector<std::int64_t> weights, of_published;
    for (const Segment& segment : spec.segments) {
      names.push_back(segment.name);
      weights.push_back(spec.parameters[static_cast<std::size_t>(segment.parameters.front())].count());
    }
    for (const parallel::Layer& layer : network.layers) {
      published.push_back(layer.name);
      of_published.push_back(layer.weights);
    }
    EXPECT_EQ(names, published);
    EXPECT_EQ(weights, of_published) << name;
  }
}

class Gradients : public ::testing::TestWithParam<GradientCase> {};

TEST_P(Gradients, EqualAutograds) {
  const auto& [name, type, tolerance, format, channels] = GetParam();
  const data::SampleShape shape = GetParam().shape();
  const Samples samples = make_samples(shape, 6);
  Bound model(make(name, type, {}, shape, format), type, type);
  const StepOutput output = model.step(samples);
  const Reference reference(name, samples, type, shape);
  EXPECT_NEAR(output.loss_sum / 6, reference.loss_mean, 1e-5);
  EXPECT_EQ(output.counts[0], reference.correct);
  for (const NamedTensor& parameter : reference.network->parameters()) {
    const auto expected = reference.gradient(parameter.tensor);
    EXPECT_GT(norm(expected), 0) << parameter.name;
    EXPECT_LE(relative_distance(model.gradient(parameter.name), expected), tolerance) << parameter.name;
  }
}

TEST_P(Gradients, AreThoseOfTheNextStepToo) {
  const auto& [name, type, tolerance, format, channels] = GetParam();
  const data::SampleShape shape = GetParam().shape();
  Bound model(make(name, type, {}, shape, format), type, type);
  model.step(make_samples(shape, 3, 8));
  const Samples samples = make_samples(shape, 6);
  model.step(samples);
  const Reference reference(name, samples, type, shape);
  for (const NamedTensor& parameter : reference.network->parameters())
    EXPECT_LE(relative_distance(model.gradient(parameter.name), reference.gradient(parameter.tensor)),
              tolerance)
        << parameter.name;
}

INSTANTIATE_TEST_SUITE_P(
    Models, Gradients,
    ::testing::Values(GradientCase{"mlp", DType::Float32, 1e-5}, GradientCase{"mlp", DType::Float64, 1e-13},
                      GradientCase{"lenet5", DType::Float32, 1e-5},
                      GradientCase{"lenet5", DType::Float64, 1e-13},
                      GradientCase{"cnn", DType::Float32, 1e-5}, GradientCase{"cnn", DType::Float64, 1e-13},
                      GradientCase{"cnn", DType::Float64, 1e-13, plan::MemoryFormat::Contiguous},
                      GradientCase{"cnn", DType::Float64, 1e-13, plan::MemoryFormat::ChannelsLast, 3},
                      GradientCase{"mlp", DType::Float64, 1e-13, plan::MemoryFormat::ChannelsLast},
                      GradientCase{"resnet18", DType::Float32, 1e-4},
                      GradientCase{"resnet18", DType::Float64, 1e-10, plan::MemoryFormat::ChannelsLast, 3}),
    [](const auto& info) {
      return fmt::format("{}_{}_{}_of_{}", info.param.model, to_string(info.param.type), info.param.format,
                         info.param.channels);
    });

TEST(Share, GradientIsItsPartOfTheGlobalMean) {
  const Samples samples = make_samples(kSmall, 4);
  Bound alone(make("mlp", DType::Float64), DType::Float64, DType::Float64);
  Bound part(make("mlp", DType::Float64), DType::Float64, DType::Float64);
  alone.step(samples);
  part.step(samples, 1, 16);
  auto expected = alone.all_gradients();
  for (double& value : expected) value /= 4;
  EXPECT_LE(relative_distance(part.all_gradients(), expected), 1e-14);
}

TEST(Share, MicroBatchesEqualOneBatch) {
  const Samples samples = make_samples(kSmall, 7);
  for (const char* name : {"mlp", "cnn"}) {
    Bound whole(make(name, DType::Float64), DType::Float64, DType::Float64);
    const StepOutput expected = whole.step(samples);
    for (int parts : {2, 3, 7, 9}) {  // 9: more parts than samples
      Bound cut(make(name, DType::Float64), DType::Float64, DType::Float64);
      const StepOutput output = cut.step(samples, parts);
      EXPECT_NEAR(output.loss_sum, expected.loss_sum, 1e-12);
      EXPECT_EQ(output.counts[0], expected.counts[0]);
      EXPECT_LE(relative_distance(cut.all_gradients(), whole.all_gradients()), 1e-13) << name << " " << parts;
    }
  }
}

TEST(Share, EmptyGivesZerosAndAllMarks) {
  Bound model(make("cnn"));
  model.step(make_samples(kSmall, 2));
  const auto buckets = model.binding().buckets.size();
  const StepOutput output = model.step(Samples{}, 1, 8);
  EXPECT_EQ(output.loss_sum, 0);
  EXPECT_EQ(norm(model.all_gradients()), 0);
  EXPECT_THAT(model.marks, SizeIs(buckets));
}

TEST(Forward, InPiecesReadsOnlyWhatItMayAndGivesTheSameBits) {
  for (const char* name : {"mlp", "cnn"}) {  // without running statistics, so that both steps are alike
    const data::SampleShape shape{{1, 12, 12}, 10};
    const Samples samples = make_samples(shape, 6);
    Bound whole(make(name, DType::Float32, {}, shape)), pieces(make(name, DType::Float32, {}, shape));
    whole.step(samples, 2);
    const ModelSpec& spec = pieces->spec();
    const auto segments = static_cast<int>(spec.segments.size());
    const StepInput input{samples.inputs, samples.labels, 6, 2};
    for (int step = 0; step < 2; ++step) {  // the second one as well as the first
      for (int until = 1; until < segments; until += 2) {
        // What must not be read yet is no number.
        const auto bytes = pieces.weights.bytes();
        const std::vector<std::byte> kept(bytes.data(), bytes.data() + bytes.size());
        for (int s = until; s < segments; ++s)
          for (int parameter : spec.segments[static_cast<std::size_t>(s)].parameters)
            pieces.fill(spec.parameters[static_cast<std::size_t>(parameter)].name, NAN);
        pieces->forward(input, until);
        std::copy(kept.begin(), kept.end(), bytes.data());
      }
      Recorder recorder;
      pieces->forward_backward(input, 0, recorder);
      EXPECT_EQ(pieces.all_gradients(), whole.all_gradients()) << name;
      EXPECT_THAT(recorder.order, SizeIs(pieces.binding().buckets.size()));
    }
  }
}

/// Cuts a weight into so many buckets of unequal size.
Binding cut_weight(Bound& bound, const std::string& weight, std::size_t parts) {
  Binding binding = bound.binding();
  std::vector<BucketRange> buckets;
  for (std::size_t b = 0; b < binding.buckets.size(); ++b) {
    const Range whole = binding.buckets[b].weights;
    const std::size_t count = binding.layout->slots()[b].name == weight ? parts : 1;
    for (std::size_t part = 0; part < count; ++part) {
      const std::size_t begin = whole.size * part * part / (count * count);
      const std::size_t end = whole.size * (part + 1) * (part + 1) / (count * count);
      const Range range{whole.begin + begin, end - begin};
      buckets.push_back({range, range});
    }
  }
  binding.buckets = buckets;
  bound->unbind();
  bound->bind(binding);
  return binding;
}

TEST(Forward, OfALinearLayerByRowsReadsOnlyWhatIsThereAndGivesTheSameBits) {
  const data::SampleShape shape{{1, 28, 28}, 10};
  const Samples samples = make_samples(shape, 6), more = make_samples(shape, 4, 9);
  Bound plain(make("cnn", DType::Float32, {}, shape)), whole(make("cnn", DType::Float32, {}, shape)),
      rows(make("cnn", DType::Float32, {}, shape));
  plain.await_no_pieces();
  const ModelSpec& spec = rows->spec();
  const int segment = 2, parameter = spec.segments[2].weight_by_rows;
  ASSERT_GE(parameter, 0);
  EXPECT_EQ(spec.parameters[static_cast<std::size_t>(parameter)].name, "fc1.weight");
  const Binding binding = cut_weight(rows, "fc1.weight", 5);
  const auto slot =
      static_cast<std::size_t>(std::find(binding.parameters.begin(), binding.parameters.end(), parameter) -
                               binding.parameters.begin());
  const std::vector<RowBlock> blocks = binding.row_blocks(slot);
  ASSERT_GE(blocks.size(), 3);
  const Range range = binding.layout->slots()[slot].range;
  const std::size_t row = range.size / static_cast<std::size_t>(blocks.back().end);
  // The second step as well as the first, and one whose batch is of another size.
  for (const Samples& share : {samples, samples, more}) {
    const StepOutput expected = whole.step(share, 2);
    const StepInput input{share.inputs, share.labels, static_cast<std::int64_t>(share.labels.size()), 2};
    for (std::size_t b = 0; b + 1 < blocks.size(); ++b) {
      auto values = rows.weights.values<float>({0, rows.weights.size()});
      const std::vector<float> kept(values.begin(), values.end());
      // What must not be read yet is no number.
      const std::size_t there = range.begin + static_cast<std::size_t>(blocks[b].end) * row;
      std::fill(values.begin() + static_cast<std::ptrdiff_t>(there),
                values.begin() + static_cast<std::ptrdiff_t>(range.end()), NAN);
      for (int s = segment + 1; s < static_cast<int>(spec.segments.size()); ++s)
        for (int later : spec.segments[static_cast<std::size_t>(s)].parameters)
          rows.fill(spec.parameters[static_cast<std::size_t>(later)].name, NAN);
      rows->forward_rows(input, segment, blocks[b].end);
      std::copy(kept.begin(), kept.end(), values.begin());
    }
    Recorder recorder;
    const StepOutput output = rows->forward_backward(input, 0, recorder);
    EXPECT_EQ(output.loss_sum, expected.loss_sum);
    EXPECT_EQ(rows.all_gradients(), whole.all_gradients());
    plain.step(share, 2);
    EXPECT_LE(relative_distance(rows.all_gradients(), plain.all_gradients()), 1e-6);
    EXPECT_THAT(recorder.order, SizeIs(binding.buckets.size()));
  }
}

TEST(Forward, ByRowsOfAStepThatIsGivenUpIsForgotten) {
  const data::SampleShape shape{{1, 28, 28}, 10};
  Samples samples = make_samples(shape, 6);
  Bound whole(make("cnn", DType::Float32, {}, shape)), rows(make("cnn", DType::Float32, {}, shape));
  const StepInput input{samples.inputs, samples.labels, 6, 1};
  rows->forward_rows(input, 2, 128);
  const Binding binding = rows.binding();
  rows->unbind();
  rows->bind(binding);
  samples = make_samples(shape, 6, 7);
  whole.step(samples);
  rows.step(samples);
  EXPECT_EQ(rows.all_gradients(), whole.all_gradients());
}

TEST(RowBlocks, AreThereWithTheBucketOfTheirLastRow) {
  tensor::ArenaLayout layout(DType::Float32);
  layout.add("before", {100});
  const Range weight = layout.add("weight", {300, 4096});  // 16 KiB a row: 128 rows at a time
  const tensor::Arena weights(DType::Float32, layout.size());
  Binding binding;
  binding.layout = &layout;
  binding.weights = &weights;
  const auto blocks_of = [&](std::vector<std::size_t> parts) {
    binding.buckets = {{{0, weight.begin}, {}}};
    std::size_t begin = 0;
    for (std::size_t end : parts) {
      binding.buckets.push_back({{weight.begin + begin * 4096, (end - begin) * 4096}, {}});
      begin = end;
    }
    std::vector<std::pair<std::size_t, std::int64_t>> blocks;
    for (const RowBlock& block : binding.row_blocks(1)) blocks.emplace_back(block.bucket, block.end);
    return blocks;
  };
  using testing::ElementsAre;
  using testing::Pair;
  EXPECT_THAT(blocks_of({300}), ElementsAre(Pair(1, 128), Pair(1, 256), Pair(1, 300)));
  EXPECT_THAT(blocks_of({128, 255, 300}), ElementsAre(Pair(1, 128), Pair(3, 256), Pair(3, 300)));
  EXPECT_THAT(blocks_of({50, 100, 150, 200, 300}), ElementsAre(Pair(3, 128), Pair(5, 256), Pair(5, 300)));
  EXPECT_THAT(row_ends(10, 4), ElementsAre(10));
  EXPECT_THAT(row_ends(130, 64 << 20), ElementsAre(64, 128, 130));  // however long rows are
}

TEST(Backward, InPiecesGivesTheBitsOfTheWholeAndTouchesOneSegmentAtATime) {
  const Samples samples = make_samples(kSmall, 6);
  for (const char* name : {"mlp", "cnn", "resnet18"}) {
    Bound whole(make(name)), pieces(make(name));
    const ModelSpec& spec = pieces->spec();
    ASSERT_TRUE(spec.divisible) << name;
    Binding binding = pieces.binding();
    binding.backward = Binding::Backward::InPieces;
    pieces->bind(binding);
    const StepInput input{samples.inputs, samples.labels, 6, 1};
    for (int step = 0; step < 2; ++step) {
      const StepOutput expected = whole.step(samples);
      for (int from = static_cast<int>(spec.segments.size()) - 1; from >= 0; --from) {
        Recorder recorder;
        const StepOutput output = pieces->forward_backward(input, from, recorder);
        EXPECT_EQ(output.loss_sum, expected.loss_sum) << name;
        // One bucket for each parameter: those of the segment are reached, in the last piece the rest too.
        const auto& segment = spec.segments[static_cast<std::size_t>(from)];
        EXPECT_THAT(recorder.order, SizeIs(segment.parameters.size())) << name << " " << segment.name;
        for (std::size_t p = 0; p < spec.parameters.size(); ++p)
          if (spec.segment_of(static_cast<int>(p)) >= from) {
            EXPECT_EQ(pieces.gradient(spec.parameters[p].name), whole.gradient(spec.parameters[p].name))
                << name << " " << spec.parameters[p].name;
          }
      }
    }
  }
}

TEST(Backward, InPiecesOfAnEmptyShareGivesZeros) {
  Bound model(make("cnn"));
  Binding binding = model.binding();
  binding.backward = Binding::Backward::InPieces;
  model->bind(binding);
  model.fill_gradients(3);
  const StepInput nothing{{}, {}, 6, 1};
  for (int from = static_cast<int>(model->spec().segments.size()) - 1; from >= 0; --from) {
    Recorder recorder;
    model->forward_backward(nothing, from, recorder);
  }
  for (double value : model.all_gradients()) ASSERT_EQ(value, 0);
}

TEST(Marks, PartsOfALargeGradientComeWhileTheRestIsComputed) {
  const data::SampleShape shape{{1, 28, 28}, 10};
  const Samples samples = make_samples(shape, 4);
  auto built = make("cnn", DType::Float32, {}, shape);
  const std::vector<int> order = built->gradient_order(samples.inputs, samples.labels);
  Bound model(std::move(built), DType::Float32, DType::Float32, order, 8);  // all in one bucket
  const auto& slots = model.binding().layout->slots();
  auto large = std::find_if(slots.begin(), slots.end(), [](const auto& s) { return s.name == "fc1.weight"; });
  ASSERT_NE(large, slots.end());
  Binding binding = model.binding();
  const Range range = large->range;
  const std::size_t middle = range.begin + range.size / 2;
  const Range first{0, middle}, rest{middle, model.gradients.size() - middle};
  binding.buckets = {{first, first}, {rest, rest}};
  model->bind(binding);
  Recorder recorder(&model.gradients);
  model->forward_backward({samples.inputs, samples.labels, 4, 1}, 0, recorder);
  EXPECT_THAT(recorder.order, ElementsAre(0, 1));
  // The first mark came before the second half was written; the first half was final.
  const auto& then = recorder.snapshots[0];
  const auto now = model.gradients.bytes();
  const std::size_t cut = middle * sizeof(float);
  EXPECT_TRUE(std::equal(then.begin(), then.begin() + static_cast<std::ptrdiff_t>(cut), now.data()));
  EXPECT_FALSE(std::equal(then.begin() + static_cast<std::ptrdiff_t>(cut), then.end(), now.data() + cut));
}

TEST(Marks, ComeOnceEachWithFinalValuesInGradientOrder) {
  const Samples samples = make_samples(kSmall, 6);
  auto built = make("cnn");
  const std::vector<int> order = built->gradient_order(samples.inputs, samples.labels);
  Bound model(std::move(built), DType::Float32, DType::Float32, order, 2);
  for (int micro_batches : {1, 3}) {
    Recorder recorder(&model.gradients);
    model.step(samples, micro_batches, 0, recorder);
    EXPECT_THAT(recorder.order, ElementsAre(0, 1, 2, 3));
    const auto all = model.gradients.bytes();
    const std::vector<std::byte> final_bytes(all.data(), all.data() + all.size());
    for (std::size_t i = 0; i < recorder.order.size(); ++i)
      for (std::size_t slot = 0; slot < model.binding().parameters.size(); ++slot)
        if (const Range range = model.binding().layout->slots()[slot].range;
            range.begin >=
                model.binding().buckets[static_cast<std::size_t>(recorder.order[i])].weights.begin &&
            range.end() <=
                model.binding().buckets[static_cast<std::size_t>(recorder.order[i])].weights.end()) {
          EXPECT_TRUE(
              std::equal(final_bytes.begin() + static_cast<std::ptrdiff_t>(range.begin * 4),
                         final_bytes.begin() + static_cast<std::ptrdiff_t>(range.end() * 4),
                         recorder.snapshots[i].begin() + static_cast<std::ptrdiff_t>(range.begin * 4)))
              << slot;
        }
    EXPECT_NE(recorder.snapshots.front(), final_bytes) << "the first mark came only at the end";
  }
}

TEST(GradientOrder, StartsAtTheLossAndIsStable) {
  const Samples samples = make_samples(kSmall, 4);
  auto model = make("mlp");
  const auto order = model->gradient_order(samples.inputs, samples.labels);
  ASSERT_THAT(order, SizeIs(6));
  auto layer = [&](int i) {
    return model->spec().parameters[static_cast<std::size_t>(order[i])].name.substr(0, 3);
  };
  EXPECT_EQ(layer(0), "fc3");
  EXPECT_EQ(layer(1), "fc3");
  EXPECT_EQ(layer(2), "fc2");
  EXPECT_EQ(layer(5), "fc1");
  EXPECT_EQ(model->gradient_order(samples.inputs, samples.labels), order);
}

TEST(GradientOrder, LeavesNoTrace) {
  const Samples samples = make_samples(kSmall, 4);
  auto touched = make("resnet18");
  auto untouched = make("resnet18");
  touched->gradient_order(samples.inputs, samples.labels);
  EXPECT_EQ(touched->buffers(), untouched->buffers());
  EXPECT_EQ(touched->parameters(), untouched->parameters());
  EXPECT_EQ(touched->random_state(), untouched->random_state());
  Bound a(std::move(touched)), b(std::move(untouched));
  a.step(samples);
  a->gradient_order(samples.inputs, samples.labels);  // also after bind()
  b.step(samples);
  EXPECT_EQ(a.all_gradients(), b.all_gradients());
  EXPECT_EQ(a->buffers(), b->buffers());
}

TEST(Frozen, ParametersHaveNoSlotAndDoNotChangeTheOthersGradients) {
  const Samples samples = make_samples(kSmall, 4);
  Bound all(make("cnn"));
  Bound some(make("cnn", DType::Float32, {"conv1.*", "fc1.weight"}));
  EXPECT_THAT(some.binding().parameters, ElementsAre(2, 3, 5, 6, 7));
  EXPECT_FALSE(some->spec().parameters[4].trainable);
  all.step(samples);
  some.step(samples);
  EXPECT_THAT(some.marks, SizeIs(5));
  for (const char* name : {"conv2.weight", "fc1.bias", "fc2.weight"})
    EXPECT_LE(relative_distance(some.gradient(name), all.gradient(name)), 1e-6) << name;
}

TEST(Frozen, UnknownNamesAreListed) {
  std::string message;
  EXPECT_EQ(kind_of(
                [] {
                  make("mlp", DType::Float32, {"conv9.*", "fc1.wieght", "fc2.bias"});
                },
                &message),
            ErrorKind::Usage);
  EXPECT_THAT(message, HasSubstr("conv9.*, fc1.wieght"));
  EXPECT_THAT(message, Not(HasSubstr("named fc2.bias")));
}

TEST(Frozen, EverythingIsAMistake) {
  EXPECT_EQ(kind_of([] { make("mlp", DType::Float32, {"*"}); }), ErrorKind::Usage);
}

TEST(Spec, OfTheCnnAtFashionMnistsShape) {
  auto model = make("cnn", DType::Float32, {}, {{1, 28, 28}, 10});
  const ModelSpec& spec = model->spec();
  EXPECT_EQ(spec.parameter_count(), 3'241'354);
  EXPECT_EQ(spec.parameters[0].name, "conv1.weight");
  EXPECT_THAT(spec.parameters[0].shape, ElementsAre(32, 1, 3, 3));
  ASSERT_THAT(spec.segments, SizeIs(4));
  EXPECT_EQ(spec.segments[1].name, "conv2");
  EXPECT_THAT(spec.segments[1].parameters, ElementsAre(2, 3));
  EXPECT_DOUBLE_EQ(spec.segments[0].forward_flops, 2.0 * 32 * 9 * 28 * 28);
  EXPECT_DOUBLE_EQ(spec.segments[1].forward_flops, 2.0 * 64 * 32 * 9 * 14 * 14);
  EXPECT_DOUBLE_EQ(spec.segments[2].forward_flops, 2.0 * 3136 * 1024);
}

TEST(Spec, OfResnet18) {
  auto model = make("resnet18", DType::Float32, {}, {{3, 16, 16}, 10});
  EXPECT_EQ(model->spec().parameter_count(),
            11'173'962);  // the literature's, with a 3 x 3 stem and 10 classes
  EXPECT_THAT(model->spec().buffers, SizeIs(3 * 20));
  std::size_t count = 0;
  for (const Segment& segment : model->spec().segments) count += segment.parameters.size();
  EXPECT_EQ(count, model->spec().parameters.size());
}

TEST(Start, IsEqualOnAllRanksAndInBothPrecisions) {
  plan::ModelPlan plan{.name = "cnn"};
  ModelContext context = context_of(plan, kSmall, DType::Float32);
  auto first = make_model(context);
  context.rank = 3;
  auto other_rank = make_model(context);
  EXPECT_EQ(first->parameters(), other_rank->parameters());
  EXPECT_NE(first->random_state(), other_rank->random_state());
  EXPECT_EQ(first->parameters(), make("cnn", DType::Float64)->parameters());
  context.seed = 12;
  EXPECT_NE(first->parameters(), make_model(context)->parameters());
}

TEST(Start, ValuesMoveIntoTheArena) {
  auto built = make("mlp");
  const auto values = built->parameters();
  Bound model(std::move(built));
  EXPECT_EQ(model->parameters(), values);
  std::vector<double> in_arena;
  for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"})
    for (double value : model.weight(name)) in_arena.push_back(value);
  EXPECT_EQ(in_arena, values);
  // The model computes with the arena's values.
  const Samples samples = make_samples(kSmall, 4);
  const double before = model->evaluate(samples.inputs, samples.labels).loss_sum;
  model.step(samples);
  model.descend(0.5);
  EXPECT_LT(model->evaluate(samples.inputs, samples.labels).loss_sum, before);
}

TEST(Start, UnboundModelOutlivesItsArenasAndCanBeBoundAgain) {
  const Samples samples = make_samples(kSmall, 4);
  auto model = make("mlp");
  const auto values = model->parameters();
  const double loss = model->evaluate(samples.inputs, samples.labels).loss_sum;
  {
    tensor::ArenaLayout layout(DType::Float32);
    Binding binding{.layout = &layout};
    for (std::size_t i = 0; i < model->spec().parameters.size(); ++i) {
      layout.add(model->spec().parameters[i].name, model->spec().parameters[i].shape);
      binding.parameters.push_back(static_cast<int>(i));
    }
    const Range all{0, layout.size()};
    binding.buckets = {{all, all}};
    tensor::Arena weights(DType::Float32, layout.size()), gradients(DType::Float32, layout.size());
    binding.weights = &weights;
    binding.gradients = {&gradients};
    model->bind(binding);
    model->unbind();
    for (float& value : weights.values<float>({0, weights.size()})) value = 7;
  }
  EXPECT_EQ(model->parameters(), values);
  EXPECT_EQ(model->evaluate(samples.inputs, samples.labels).loss_sum, loss);
  Bound again(std::move(model));
  EXPECT_EQ(again.weight("fc1.bias")[0],
            again->parameters()[static_cast<std::size_t>(256 * kSmall.elements())]);
}

TEST(Start, SetParametersIsTheInverseOfParameters) {
  auto model = make("mlp", DType::Float64);
  auto values = model->parameters();
  for (double& value : values) value = value * 3 + 1;
  model->set_parameters(values);
  EXPECT_EQ(model->parameters(), values);
}

TEST(Start, UnknownModelAndUnfitShape) {
  std::string message;
  EXPECT_EQ(kind_of([] { make("transfomer"); }, &message), ErrorKind::Usage);
  EXPECT_THAT(message, HasSubstr("mlp, lenet5, cnn, resnet18"));
  EXPECT_EQ(kind_of([] { make("cnn", DType::Float32, {}, {{784}, 10}); }, &message), ErrorKind::Usage);
  EXPECT_THAT(message, HasSubstr("[784]"));
}

TEST(BatchNorm, BuffersRoundTripAndDecideEvaluation) {
  const Samples samples = make_samples(kSmall, 6);
  Bound trained(make("resnet18")), fresh(make("resnet18"));
  const double start = fresh->evaluate(samples.inputs, samples.labels).loss_sum;
  const auto initial = trained->buffers();
  trained.step(samples);
  const auto buffers = trained->buffers();
  EXPECT_NE(buffers, initial);
  EXPECT_EQ(buffers[128], 1) << "num_batches_tracked of the first layer";
  const double after = trained->evaluate(samples.inputs, samples.labels).loss_sum;
  EXPECT_NE(after, start);
  EXPECT_EQ(trained->buffers(), buffers) << "evaluation changed the statistics";
  fresh->set_buffers(buffers);
  EXPECT_EQ(fresh->buffers(), buffers);
  EXPECT_EQ(fresh->evaluate(samples.inputs, samples.labels).loss_sum, after);
}

/// A share of one sample, where a map is one pixel: its variance is no number, and is not learnt.
TEST(BatchNorm, OfOneValueLearnsNoVariance) {
  const data::SampleShape tiny{{1, 8, 8}, 5};
  Bound model(make("resnet18", DType::Float32, {}, tiny));
  model.step(make_samples(tiny, 6));
  model.step(make_samples(tiny, 1));
  for (double value : model->buffers()) ASSERT_TRUE(std::isfinite(value));
  for (double value : model.all_gradients()) ASSERT_TRUE(std::isfinite(value));
}

TEST(Evaluate, EqualsTheLossOfTheStep) {
  const Samples samples = make_samples(kSmall, 9);
  Bound model(make("mlp"));
  const StepOutput evaluated = model->evaluate(samples.inputs, samples.labels);
  const StepOutput stepped = model.step(samples);
  EXPECT_NEAR(evaluated.loss_sum, stepped.loss_sum, 1e-5);
  EXPECT_EQ(evaluated.counts, stepped.counts);
  EXPECT_EQ(model->evaluate({}, {}).loss_sum, 0);
}

TEST(Evaluate, LabelsOutOfRangeAreAnError) {
  Samples samples = make_samples(kSmall, 2);
  samples.labels[1] = 5;
  Bound model(make("mlp"));
  EXPECT_THROW(model.step(samples), Error);
  samples.labels[1] = 4;
  model.step(samples);  // the model survives
  Bound other(make("mlp"));
  other.step(samples);
  EXPECT_EQ(model.all_gradients(), other.all_gradients());
}

struct HalfCase {
  std::string model;
  // On the distance of the whole gradient: sums in float32, as oneDNN has them; sums in bfloat16, as
  // libtorch's own convolutions have them; 0: then nothing is left of it.
  double tolerance, with_short_sums;
};
/// What oneDNN needs for bfloat16; libtorch does without it elsewhere.
bool sums_in_float32() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}
class HalfPrecision : public ::testing::TestWithParam<HalfCase> {};

TEST_P(HalfPrecision, GradientsAreNearThoseOfFloat32) {
  const auto& [name, with_long_sums, with_short_sums] = GetParam();
  const double tolerance = sums_in_float32() ? with_long_sums : with_short_sums;
  if (tolerance == 0)
    GTEST_SKIP() << "without AVX-512 libtorch sums convolutions in bfloat16, too coarse for " << name;
  const data::SampleShape shape{{1, 16, 16}, 5};
  const Samples samples = make_samples(shape, 16);
  Bound half(make(name, DType::BFloat16, {}, shape), DType::BFloat16, DType::Float32);
  Bound full(make(name, DType::Float32, {}, shape));
  for (int micro_batches : {1, 2}) {
    const double loss = full.step(samples, micro_batches).loss_sum;
    EXPECT_NEAR(half.step(samples, micro_batches).loss_sum, loss, 0.03 * loss);
    EXPECT_LE(relative_distance(half.all_gradients(), full.all_gradients()), tolerance);
    EXPECT_GT(relative_distance(half.all_gradients(), full.all_gradients()), 1e-4);
  }
}
// Batch norm over few values, as in the last layers here, magnifies rounding.
INSTANTIATE_TEST_SUITE_P(Models, HalfPrecision,
                         ::testing::Values(HalfCase{"mlp", 0.1, 0.1}, HalfCase{"lenet5", 0.1, 0.3},
                                           HalfCase{"cnn", 0.1, 0.1}, HalfCase{"resnet18", 0.4, 0}),
                         [](const auto& info) { return info.param.model; });

TEST(Copies, LinearWeightsAreComputedInPlaceAndTheRestMovesInTheFirstStep) {
  const Samples samples = make_samples(kSmall, 4);
  Bound model(make("cnn", DType::Float32, {}, kSmall, plan::MemoryFormat::Contiguous));
  model.step(samples);
  EXPECT_EQ(model->copies().copies, 6);  // of 8 parameters
  EXPECT_EQ(model->copies().bytes, 4 * (32 * 9 + 32 + 64 * 32 * 9 + 64 + 1024 + 5));
  model.step(samples, 2);
  EXPECT_EQ(model->copies().copies, 6);  // the second micro-batch's are added to the first's
  model.step(Samples{}, 1, 1);
  EXPECT_EQ(model->copies().copies, 0);
}

TEST(Copies, MixedTypesMoveOnce) {
  Bound model(make("mlp", DType::BFloat16), DType::BFloat16, DType::Float32);
  model.step(make_samples(kSmall, 4));
  EXPECT_EQ(model->copies().copies, 6);
}

}  // namespace
}  // namespace taxon::model
