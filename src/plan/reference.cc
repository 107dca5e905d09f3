#include "plan/reference.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/fields.h"
#include "plan/legality.h"
#include "plan/model_file.h"
#include "plan/text.h"

namespace taxon::plan {
namespace {

constexpr std::string_view kIntroduction =
    R"(# The plan: every key of a recipe
A recipe is a YAML file that describes a run completely. Every key has a default; `--set key.path=value` lays a value
over the file's, where the value is YAML too (`--set learning_rate.step_samples='[60000, 120000]'`) and an element of
a list is named by its index (`--set exchange.levels.0.collective=ring`). Of keys that stand for each other (such as
`length.epochs` and `length.steps`) the one that an override gives takes the place of the one in the file. Whatever is
wrong with the file and the overrides is listed at once, with line numbers, before anything starts.

This page is made from `src/plan/fields.h`, `src/plan/exchange_fields.h`, `src/plan/legality.cc` and the rows of the
tables.
)";

std::string row(std::string_view key, const std::string& standard, std::string_view kind,
                const Field& field) {
  return fmt::format("| `{}` | {} | {} | {} |\n", key, standard.empty() ? "" : "`" + standard + "`", kind,
                     field.sentence);
}

template <class T>
void describe(T& section, const std::string& prefix, std::string& out) {
  visit_fields(section, [&](const Field& field, auto& member) {
    using M = std::remove_cvref_t<decltype(member)>;
    std::string key = prefix + std::string(field.key);
    if constexpr (Section<M>) {
      if (!field.word.empty())
        out += row(key, "", fmt::format("a word, for `{}`, or a section", field.word), field);
      describe(member, key + ".", out);
    } else if constexpr (requires { to_text(field, member); }) {
      out += row(key, to_text(field, member), allowed(field, member), field);
    } else {
      typename M::value_type element{};
      out += row(key, "", "a list of sections", field);
      describe(element, key + "[].", out);
    }
  });
}

constexpr std::string_view kHead = "| key | default | must be | meaning |\n|---|---|---|---|\n";

/// A key that rows of the same words for it share.
struct SharedKey {
  OptionKey key;
  std::vector<std::string> rows;
};

template <class Row>
void collect(const std::vector<Row>& rows, std::vector<SharedKey>& all) {
  for (const Row& row : rows)
    for (const OptionKey& key : row.options) {
      const auto same = std::find_if(all.begin(), all.end(), [&](const SharedKey& other) {
        return other.key.key == key.key && other.key.sentence == key.sentence &&
               other.key.standard == key.standard && other.key.allowed == key.allowed;
      });
      if (same == all.end())
        all.push_back({key, {row.name}});
      else
        same->rows.push_back(row.name);
    }
}

std::string table_of(const std::vector<SharedKey>& keys) {
  std::string table = "\n| key | default | must be | meaning | of |\n|---|---|---|---|---|\n";
  for (const SharedKey& shared : keys)
    table += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", shared.key.key, shared.key.standard,
                         shared.key.allowed, shared.key.sentence, fmt::join(shared.rows, ", "));
  return table;
}

std::string names_of(const std::vector<OptionKey>& options) {
  std::vector<std::string> keys;
  for (const OptionKey& key : options) keys.push_back("`" + key.key + "`");
  return fmt::format("{}", fmt::join(keys, ", "));
}

/// Rows that a key may name, and what they have of their own.
template <class Row>
void add_names(std::string& page, std::string_view key, const std::vector<Row>& rows,
               std::vector<SharedKey>& keys) {
  for (const Row& row : rows)
    page += fmt::format("| `{}` | `{}` | {} | {} |\n", key, row.name, row.sentence, names_of(row.options));
  collect(rows, keys);
}

std::string levels_page(const Catalogue& catalogue) {
  std::string page =
      "\n## Topologies, outer rules, consistency and late contributions\nWhat a level's `topology`, `rule`, "
      "`consistency` and `late` may name, and the keys that its section then has beside those above.\n\n| "
      "key | name | meaning | keys of its own |\n"
      "|---|---|---|---|\n";
  std::vector<SharedKey> keys;
  add_names(page, "topology", catalogue.topologies, keys);
  add_names(page, "rule", catalogue.outer_rules, keys);
  add_names(page, "consistency", catalogue.consistencies, keys);
  add_names(page, "late", catalogue.lates, keys);
  return page + table_of(keys);
}

std::string models_page(const Catalogue& catalogue) {
  std::string page =
      "\n## Models and tasks\nWhat `model.name` and `task` may name, and the keys that these sections then "
      "have "
      "beside those above; [models.md](models.md) has examples.\n\n| key | name | meaning | keys of its own "
      "|\n|---|---|---|---|\n";
  std::vector<SharedKey> keys;
  add_names(page, "model", catalogue.models, keys);
  const std::vector<Catalogue::Model> files = {
      {.name = "FILE.pt2",
       .sentence = "A program of torch.export; or a TorchScript file, by `torchscript`.",
       .options = option_keys<ModelFileOptions>()}};
  add_names(page, "model", files, keys);
  add_names(page, "task", catalogue.tasks, keys);
  return page + table_of(keys);
}

std::string rules_page(const Catalogue& catalogue) {
  std::string page =
      "\n## Update rules and schedules\nWhat `optimiser.rule` and `learning_rate.schedule` may name, and the "
      "keys that these sections then have beside those above.\n\n| key | name | meaning | keys of its own |\n"
      "|---|---|---|---|\n";
  std::vector<SharedKey> keys;
  add_names(page, "rule", catalogue.rules, keys);
  add_names(page, "schedule", catalogue.schedules, keys);
  return page + table_of(keys);
}

std::string pipelines_page(const Catalogue& catalogue) {
  std::string page =
      "\n## Schedules of pipelines\nWhat `pipeline.schedule` may name, and the keys that its section then "
      "has "
      "beside those above; [parallelism.md](parallelism.md) draws them.\n\n| key | name | meaning | keys of "
      "its own |\n|---|---|---|---|\n";
  std::vector<SharedKey> keys;
  add_names(page, "schedule", catalogue.pipelines, keys);
  return page + table_of(keys);
}

std::string data_page(const Catalogue& catalogue) {
  std::string page =
      "\n## Data sets and transforms\nWhat `data.dataset` and an element of `data.transforms` may name, and "
      "the keys that these sections then have beside those above; [data.md](data.md) has examples.\n\n"
      "| key | name | meaning | keys of its own |\n|---|---|---|---|\n";
  std::vector<SharedKey> keys;
  add_names(page, "dataset", catalogue.datasets, keys);
  add_names(page, "transforms", catalogue.transforms, keys);
  return page + table_of(keys);
}

std::string codecs_page(const Catalogue& catalogue) {
  std::string page =
      "\n## Codecs\nWhat travels by each codec of [compression.md](compression.md), for d values of which k "
      "travel "
      "among n members, and the keys that its section has beside those above. How wires of several members "
      "become "
      "one decides [how they travel](compression.md#how-wires-travel).\n\n"
      "| codec | what travels | bytes of a wire | algebra | biased | source | keys of its own |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Catalogue::Codec& codec : catalogue.codecs)
    page += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", codec.name, codec.sentence, codec.bytes,
                        codec.algebra, codec.biased ? "yes" : "no", codec.source, names_of(codec.options));
  std::vector<SharedKey> keys;
  collect(catalogue.codecs, keys);
  return page + table_of(keys);
}

std::string rule_row(std::string_view key, std::string_view sentence) {
  return fmt::format("| `{}` | {} |\n", key, sentence);
}

}  // namespace

std::string plan_reference(const Catalogue& catalogue) {
  Plan plan;
  std::string top, sections;
  visit_fields(plan, [&](const Field& field, auto& member) {
    using M = std::remove_cvref_t<decltype(member)>;
    if constexpr (Section<M>) {
      sections += fmt::format("\n## {}\n{}\n\n{}", field.key, field.sentence, kHead);
      describe(member, std::string(field.key) + ".", sections);
    } else {
      top += row(field.key, to_text(field, member), allowed(field, member), field);
    }
  });
  std::string rules = "\n## What must hold between keys\n\n| key | rule |\n|---|---|\n";
  for (const LegalityRow& r : legality_table()) rules += rule_row(r.key, r.sentence);
  auto add = [&rules](const auto& rows) {
    for (const auto& row : rows)
      for (const auto& r : row.rules)
        if (const std::string text = rule_row(r.key, r.sentence); rules.find(text) == std::string::npos)
          rules += text;
  };
  add(catalogue.models);
  add(catalogue.datasets);
  add(catalogue.rules);
  add(catalogue.schedules);
  add(catalogue.pipelines);
  add(catalogue.topologies);
  add(catalogue.outer_rules);
  add(catalogue.consistencies);
  add(catalogue.lates);
  add(catalogue.codecs);
  return fmt::format("{}\n{}{}{}{}{}{}{}{}{}{}", kIntroduction, kHead, top, sections, models_page(catalogue),
                     data_page(catalogue), rules_page(catalogue), pipelines_page(catalogue),
                     levels_page(catalogue), codecs_page(catalogue), rules);
}

}  // namespace taxon::plan
