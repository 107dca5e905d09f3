#include "apps/taxon/commands/taxonomy.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/taxon/commands/command.h"
#include "apps/taxon/commands/row_page.h"
#include "base/error.h"
#include "exchange/topologies/graph.h"
#include "job/recipes.h"
#include "plan/axes.h"
#include "plan/survey.h"
#include "program/schedule.h"

namespace taxon::app {
namespace {

struct Axis {
  std::string_view name, question;
  std::vector<std::string> points;
};

std::vector<Axis> axes() {
  const plan::Catalogue known = job::catalogue();
  Axis optimisation{"optimisation", "who owns parameters and optimiser state?", {}};
  Axis communication{"communication", "who talks to whom?", {}};
  for (const auto& topology : known.topologies) {
    optimisation.points.push_back(fmt::format("topology {}: {}", topology.name, topology.sentence));
    if (!topology.collectives.empty())
      communication.points.push_back(
          fmt::format("{} by {}", topology.name, fmt::join(topology.collectives, ", ")));
  }
  for (const auto& row : known.outer_rules)
    optimisation.points.push_back(fmt::format("rule {}: {}", row.name, row.sentence));
  for (const auto& row : exchange::graph_table())
    communication.points.push_back(fmt::format("gossip on the graph {}", row.name));
  Axis scheduling{
      "scheduling",
      "when may a worker proceed?",
      {"synchronous", "delayed (exchange.delay)", "every H steps (period, fragments, delay of a level)",
       "quorum: backup workers (quorum)", "bounded staleness (staleness)", "n-softsync (apply, staleness -1)",
       "asynchronous (staleness -1, apply 1)"}};
  for (const auto& row : known.consistencies)
    scheduling.points.push_back(fmt::format("consistency {}: {}", row.name, row.sentence));
  for (const auto& row : known.lates)
    scheduling.points.push_back(fmt::format("late {}: {}", row.name, row.sentence));
  Axis compression{"compression", "what travels?", {"dense", "bfloat16 compute with float32 masters"}};
  for (const auto& codec : known.codecs)
    compression.points.push_back(fmt::format("codec {}: {}", codec.name, codec.sentence));
  compression.points.emplace_back(
      "sufficient factors of linear layers, by rule or always (factors of a level)");
  communication.points.emplace_back("servers, at every worker or on ranks of their own (mesh.servers)");
  communication.points.emplace_back("levels: in a node, then across nodes, where servers may be too");
  Axis parallelism{"parallelism", "what is split?", {"data"}};
  for (const auto& row : program::schedule_table())
    if (row.parallelism != "data")
      parallelism.points.push_back(fmt::format("{}, trained (mesh.pipeline, pipeline.schedule): {}: {}",
                                               row.parallelism, row.name, row.sentence));
  parallelism.points.emplace_back(
      "tensor, trained (mesh.tensor): layers by outputs and inputs, attention by heads");
  parallelism.points.emplace_back(
      "data, model or hybrid for each layer, computed alone (taxon parallel): groups of each layer's own");
  return {std::move(parallelism), std::move(optimisation), std::move(scheduling), std::move(communication),
          std::move(compression)};
}

void print_survey(std::ostream& out) {
  out << "\nSystems of the survey and what of them is out of reach:\n";
  for (const plan::SurveyRow& row : plan::survey())
    out << fmt::format("  {} ({}): {}{}{}\n", row.system, row.source,
                       row.recipes.empty() ? "no recipe" : std::string(row.recipes),
                       row.missing.empty() ? "" : "; without: ", row.missing);
}

std::string to_json(const std::vector<plan::Plan>& plans) {
  using Json = nlohmann::ordered_json;
  Json json = {{"axes", Json::array()}, {"recipes", Json::array()}};
  for (const Axis& axis : axes())
    json["axes"].push_back({{"name", axis.name}, {"question", axis.question}, {"points", axis.points}});
  for (const plan::Plan& plan : plans) {
    Json& row = json["recipes"].emplace_back(Json{{"name", plan.name}});
    for (const auto& [axis, point] : plan::by_name(plan::axes_of(plan, job::catalogue())))
      row[std::string(axis)] = point;
  }
  for (const plan::SurveyRow& row : plan::survey())
    json["survey"].push_back({{"system", std::string(row.system)},
                              {"source", std::string(row.source)},
                              {"recipes", std::string(row.recipes)},
                              {"missing", std::string(row.missing)}});
  return json.dump(2) + "\n";
}

int print_taxonomy(const TaxonomyArguments& arguments, std::ostream& out) {
  if (!arguments.row.empty()) {
    out << row_page(arguments.row);
    return 0;
  }
  std::vector<plan::Plan> plans;
  std::string wrong;
  for (const std::string& recipe : arguments.recipes) try {
      plans.push_back(job::read_recipe(recipe));
    } catch (const Error& error) {
      wrong += std::string(wrong.empty() ? "" : "\n") + error.what();
    }
  if (!wrong.empty()) throw Error(ErrorKind::Usage, wrong);
  if (arguments.json) {
    out << to_json(plans);
    return 0;
  }
  for (const Axis& axis : axes()) {
    out << fmt::format("{}: {}\n", axis.name, axis.question);
    for (const std::string& point : axis.points) out << "  " << point << "\n";
  }
  if (plans.empty()) {
    out << "\nName recipes to see where they stand: taxon taxonomy recipes/systems/*.yaml\n";
  } else {
    out << "\n";
  }
  for (const plan::Plan& plan : plans) {
    const plan::Axes place = plan::axes_of(plan, job::catalogue());
    out << fmt::format("{:<20} {}; {}; {}; {}; {}\n", plan.name, place.parallelism, place.optimisation,
                       place.scheduling, place.communication, place.compression);
  }
  print_survey(out);
  return 0;
}

}  // namespace

int run_taxonomy(const TaxonomyArguments& arguments) {
  return run_alone([&] { return print_taxonomy(arguments, std::cout); });
}

}  // namespace taxon::app
