#include "plan/reader.h"

#include "plan/model_file.h"

namespace taxon::plan {

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    Plan plan;
    collect_keys(plan, "", all);
    return all;
  }();
  return keys;
}

void Reader::document(const YAML::Node& root, const std::string& origin) {
  reader_.document(root, plan_, origin);
}

void Reader::override_key(const std::string& assignment) { reader_.override_key(plan_, assignment); }

namespace {

/// A section with rows' keys: where it is, what it names, and all rows that it could.
struct RowSection {
  std::string path, known_path;
  std::string named;           // for messages
  bool rows_are_known = true;  // the rows that it names; otherwise that is said elsewhere
  std::vector<OptionKey> keys;
  std::vector<std::pair<std::string, std::vector<OptionKey>>> rows;
};

template <class Row>
void add_rows(RowSection& section, const std::vector<Row>& rows) {
  for (const Row& row : rows) section.rows.emplace_back(row.name, row.options);
}

/// Why a section that names other rows may not have this key. A key of another row that says what it would
/// say anyway is passed over: plans of before this was checked have all keys of all rows.
std::optional<std::string> refusal_of(const RowSection& section, const std::string& key,
                                      const std::string& text) {
  std::vector<std::string> others, own, keys = known_keys();
  for (const auto& [name, options] : section.rows)
    for (const OptionKey& option : options) {
      if (option.key != key) continue;
      if (option.canonical(text) == option.standard) return {};
      others.push_back(name);
    }
  for (const OptionKey& option : section.keys) own.push_back(option.key);
  if (!others.empty() && !section.rows_are_known) return {};
  if (!others.empty())
    return fmt::format("{}.{} is a key of {}; {} has {}", section.path, key, fmt::join(others, ", "),
                       section.named,
                       own.empty() ? "none of its own" : fmt::format("{}", fmt::join(own, ", ")));
  for (const std::string& name : own) keys.push_back(section.known_path + name);
  return fmt::format("{}.{} is no key{}", section.path, key,
                     suggestion(nearest_key(section.known_path + key, keys)));
}

}  // namespace

void Reader::settle(const Catalogue& catalogue) {
  auto settle = [this](Options& options, const RowSection& section) {
    if (section.rows.empty()) return;  // nobody could ask
    reader_.settle_options(
        options, section.path, section.keys,
        [&](const std::string& key, const std::string& text) { return refusal_of(section, key, text); });
  };
  RowSection model{.path = "model",
                   .known_path = "model.",
                   .named = plan_.model.name.empty() ? "a TorchScript file" : "model " + plan_.model.name,
                   .rows_are_known = comes_in_a_file(plan_.model) || catalogue.find_model(plan_.model.name),
                   .keys = own_keys(plan_.model, catalogue),
                   .rows = {}};
  add_rows(model, catalogue.models);
  if (!model.rows.empty()) model.rows.emplace_back("models of files", option_keys<ModelFileOptions>());
  // One that is not there may have any keys.
  if (model.rows_are_known || !catalogue.may_lack_models) settle(plan_.model.options, model);
  const auto settle_rows = [&](auto& part, std::string path, std::string known_path, std::string named,
                               bool is_known, const auto& rows) {
    RowSection section{.path = std::move(path),
                       .known_path = std::move(known_path),
                       .named = std::move(named),
                       .rows_are_known = is_known,
                       .keys = own_keys(part, catalogue),
                       .rows = {}};
    add_rows(section, rows);
    settle(part.options, section);
  };
  settle_rows(plan_.task, "task", "task.", "task " + plan_.task.name,
              plan_.task.name == "auto" || catalogue.find_task(plan_.task.name), catalogue.tasks);
  settle_rows(plan_.optimiser, "optimiser", "optimiser.", "rule " + plan_.optimiser.rule,
              catalogue.find_rule(plan_.optimiser.rule), catalogue.rules);
  settle_rows(plan_.learning_rate, "learning_rate", "learning_rate.",
              "schedule " + plan_.learning_rate.schedule,
              catalogue.find_schedule(plan_.learning_rate.schedule), catalogue.schedules);
  settle_rows(plan_.pipeline, "pipeline", "pipeline.", "schedule " + plan_.pipeline.schedule,
              catalogue.find_pipeline(plan_.pipeline.schedule), catalogue.pipelines);
  settle_rows(plan_.data, "data", "data.", "data set " + plan_.data.dataset,
              catalogue.find_dataset(plan_.data.dataset), catalogue.datasets);
  for (std::size_t t = 0; t < plan_.data.transforms.size(); ++t) {
    TransformPlan& transform = plan_.data.transforms[t];
    settle_rows(transform, fmt::format("data.transforms[{}]", t), "data.transforms.",
                "transform " + transform.name, catalogue.find_transform(transform.name),
                catalogue.transforms);
  }
  for (std::size_t l = 0; l < plan_.exchange.levels.size(); ++l) {
    LevelPlan& level = plan_.exchange.levels[l];
    auto is_known = [&](const std::string& codec) { return codec == "none" || catalogue.find_codec(codec); };
    RowSection own{.path = fmt::format("exchange.levels[{}]", l),
                   .known_path = "exchange.levels.",
                   .named = named_rows(level, catalogue),
                   .rows_are_known = catalogue.find_topology(level.topology) &&
                                     catalogue.find_consistency(level.consistency) &&
                                     catalogue.find_late(level.late) &&
                                     (level.rule == "sum" || catalogue.find_outer(level.rule)),
                   .keys = own_keys(level, catalogue),
                   .rows = {}};
    add_rows(own, catalogue.topologies);
    add_rows(own, catalogue.outer_rules);
    add_rows(own, catalogue.consistencies);
    add_rows(own, catalogue.lates);
    settle(level.options, own);
    RowSection codec{.path = own.path + ".codec",
                     .known_path = "exchange.levels.codec.",
                     .named = "codec " + level.codec.candidate(),
                     .rows_are_known = is_known(level.codec.candidate()) && is_known(level.codec.answer),
                     .keys = own_keys(level.codec, catalogue),
                     .rows = {}};
    add_rows(codec, catalogue.codecs);
    settle(level.codec.options, codec);
  }
}

}  // namespace taxon::plan
