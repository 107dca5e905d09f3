#include "apps/taxon/commands/row_page.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "comm/collectives.h"
#include "job/recipes.h"
#include "parallel/network.h"
#include "parallel/split.h"
#include "plan/nearest.h"
#include "program/schedule.h"

namespace taxon::app {
namespace {

/// Adds rows of that name to a page. Rows have names, and more or less of what else describes them.
class RowPage {
 public:
  explicit RowPage(std::string_view name) : name_(name) {}

  /// `where`: what names such a row.
  template <class Rows>
  void add(std::string_view where, const Rows& rows) {
    for (const auto& row : rows) {
      names_.emplace_back(row.name);
      if (row.name == name_) describe(where, row);
    }
  }
  void add_names(std::string_view where, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      names_.push_back(name);
      if (name == name_) head(where);
    }
  }
  std::string finish() const {
    if (!text_.empty()) return text_;
    throw Error(ErrorKind::Usage, fmt::format("no table has a row \"{}\"{}", name_,
                                              plan::suggestion(plan::nearest(name_, names_))));
  }

 private:
  void head(std::string_view where) {
    text_ += fmt::format("{}{}: {}\n", text_.empty() ? "" : "\n", where, name_);
  }
  template <class Row>
  void describe(std::string_view where, const Row& row) {
    head(where);
    if constexpr (requires { row.sentence; })
      if (!row.sentence.empty()) text_ += fmt::format("  {}\n", row.sentence);
    if constexpr (requires { row.source; })
      if (!row.source.empty()) text_ += fmt::format("  source: {}\n", row.source);
    if constexpr (requires { row.bytes; }) text_ += fmt::format("  bytes of a wire: {}\n", row.bytes);
    if constexpr (requires { row.optimisation; }) add_word("optimisation", row.optimisation);
    if constexpr (requires { row.replicas; }) add_word("optimisation", row.replicas);
    if constexpr (requires { row.scheduling; }) add_word("scheduling", row.scheduling);
    if constexpr (requires { row.collectives; })
      add_word("communication", fmt::format("{}", fmt::join(row.collectives, ", ")));
    if constexpr (requires { row.options; }) add_keys(row);
    if constexpr (requires { row.rules; })
      for (const auto& rule : row.rules) text_ += fmt::format("  {} {}\n", rule.key, rule.sentence);
  }
  void add_word(std::string_view axis, std::string_view word) {
    if (!word.empty()) text_ += fmt::format("  {}: {}\n", axis, word);
  }
  template <class Row>
  void add_keys(const Row& row) {
    std::vector<plan::OptionKey> keys;
    if constexpr (requires { row.options(); })
      keys = row.options();
    else
      keys = row.options;
    for (const plan::OptionKey& key : keys)
      text_ += fmt::format("  key {}: {} ({}) {}\n", key.key, key.standard, key.allowed, key.sentence);
  }

  const std::string name_;
  std::string text_;
  std::vector<std::string> names_;
};

}  // namespace

std::string row_page(std::string_view name) {
  const plan::Catalogue known = job::catalogue();
  RowPage page(name);
  page.add("exchange.levels.codec.name", known.codecs);
  page.add("exchange.levels.topology", known.topologies);
  page.add("exchange.levels.rule", known.outer_rules);
  page.add("exchange.levels.consistency", known.consistencies);
  page.add("exchange.levels.late", known.lates);
  page.add_names("exchange.levels.graph", plan::names_of(known.graphs));
  page.add("optimiser.rule", known.rules);
  page.add("learning_rate.schedule", known.schedules);
  page.add("model.name", known.models);
  page.add("task.name", known.tasks);
  page.add("data.dataset", known.datasets);
  page.add("data.transforms.name", known.transforms);
  page.add_names("transport.kind", known.transports);
  for (const comm::CollectiveRow& row : comm::collective_table())
    page.add(fmt::format("exchange.levels.collective, {}", comm::name_of(row.collective)),
             std::span(&row, 1));
  page.add("taxon schedule", program::schedule_table());
  page.add("taxon parallel", parallel::network_table());
  page.add("split of a layer", parallel::split_table());
  return page.finish();
}

}  // namespace taxon::app
