#include <fmt/format.h>

#include "base/error.h"
#include "model/task.h"
#include "plan/field.h"

namespace taxon::model {
namespace {

constexpr int kSeveral = 5;

struct ClassificationOptions {
  double label_smoothing = 0;
  bool top5 = false;
};
template <plan::Like<ClassificationOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "label_smoothing",
                    .sentence =
                        "Share of each label that is spread over all classes in training (Szegedy et al., "
                        "CVPR 2016); tests have the plain cross-entropy.",
                    .min = 0,
                    .max = 1,
                    .below_max = true},
        o.label_smoothing);
  visit(
      plan::Field{.key = "top5",
                  .sentence = "Whether it is also counted how often the label is among the five likeliest."},
      o.top5);
}

constexpr Metric kMetrics[] = {
    {"accuracy", "share of labels that are the likeliest class", Metric::Unit::Share, Metric::Better::More,
     [](const LabelMeans& means) { return means.counts[0]; }},
    {"top5_accuracy", "share of labels among the five likeliest classes", Metric::Unit::Share,
     Metric::Better::More, [](const LabelMeans& means) { return means.counts[1]; }},
};

Task make(const plan::Options& given, const data::SampleShape& shape) {
  const auto options = given.read<ClassificationOptions>();
  if (options.top5 && shape.classes <= kSeveral)
    throw Error(ErrorKind::Usage,
                fmt::format("task.top5: every label of {} classes is among the five likeliest; leave it out",
                            shape.classes));
  Task task{.name = "classification", .label_smoothing = options.label_smoothing};
  task.among = {1, options.top5 ? kSeveral : 0};
  task.counts = options.top5 ? 2 : 1;
  task.metrics = std::span(kMetrics).first(options.top5 ? 2 : 1);
  return task;
}

}  // namespace

TaskRow classification() {
  return {.name = "classification",
          .sentence = "One class for each sample: cross-entropy, accuracy.",
          .fits = [](const data::SampleShape& shape) { return shape.target.empty(); },
          .make = make,
          .options = plan::option_keys<ClassificationOptions>};
}

}  // namespace taxon::model
