#include "plan/reference.h"

#include <fmt/format.h>

#include "plan/legality.h"
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

This page is made from `src/plan/fields.h`, `src/plan/exchange_fields.h` and `src/plan/legality.cc`.
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
      if constexpr (Section<typename M::value_type>) {
        out += row(key, "", "a list of sections", field);
        describe(element, key + "[].", out);
      } else {
        out += row(key, "", "a list; each " + allowed(field, element), field);
      }
    }
  });
}

constexpr std::string_view kHead = "| key | default | must be | meaning |\n|---|---|---|---|\n";

}  // namespace

std::string plan_reference() {
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
  for (const LegalityRow& r : legality_table()) rules += fmt::format("| `{}` | {} |\n", r.key, r.sentence);
  return fmt::format("{}\n{}{}{}{}", kIntroduction, kHead, top, sections, rules);
}

}  // namespace taxon::plan
