#include <cmath>
#include <numbers>

#include "model/task.h"
#include "plan/field.h"

namespace taxon::model {
namespace {

struct LanguageModelOptions {
  int sample = 200;
};
template <plan::Like<LanguageModelOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "sample",
                    .sentence = "Tokens that the trained model writes at the end of a run, after the test "
                                "set's first ones, for a person to read.",
                    .min = 0,
                    .max = 1e5},
        o.sample);
}

constexpr Metric kBits = {"bits_per_byte", "mean loss of a byte, in bits", Metric::Unit::Number,
                          Metric::Better::Less,
                          [](const LabelMeans& means) { return means.loss / std::numbers::ln2; }};
constexpr Metric kPerplexity = {"perplexity", "e to the mean loss of a token", Metric::Unit::Number,
                                Metric::Better::Less,
                                [](const LabelMeans& means) { return std::exp(means.loss); }};
constexpr Metric kOfBytes[] = {kBits, kPerplexity};
constexpr Metric kOfTokens[] = {kPerplexity};

Task make(const plan::Options& given, const data::SampleShape& shape) {
  Task task{.name = "language_model"};
  task.metrics = shape.bytes ? std::span<const Metric>(kOfBytes) : std::span<const Metric>(kOfTokens);
  task.written_tokens = given.read<LanguageModelOptions>().sample;
  return task;
}

}  // namespace

TaskRow language_model() {
  return {.name = "language_model",
          .sentence =
              "The token after each token of a window: cross-entropy, its mean over tokens; perplexity, "
              "and bits per byte where tokens are bytes.",
          .fits =
              [](const data::SampleShape& shape) {
                return shape.input_type == DType::Int64 && shape.target == shape.input &&
                       !shape.has_real_targets();
              },
          .make = make,
          .options = plan::option_keys<LanguageModelOptions>};
}

}  // namespace taxon::model
