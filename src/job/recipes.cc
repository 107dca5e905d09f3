#include "job/recipes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "data/dataset.h"
#include "data/transform.h"
#include "model/model.h"
#include "net/transport_choice.h"
#include "plan/nearest.h"

namespace taxon::job {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSuggestions = 3;

std::string suggestions(const std::string& word, std::vector<std::string> names) {
  // A part of a name is nearer than any misspelling.
  std::vector<std::string> near;
  for (const std::string& name : names)
    if (!word.empty() && name.find(word) != std::string::npos) near.push_back(name);
  while (near.size() < kMostSuggestions) {
    const auto next = plan::nearest(word, names);
    if (!next) break;
    if (std::find(near.begin(), near.end(), *next) == near.end()) near.push_back(*next);
    std::erase(names, *next);
  }
  if (near.size() > kMostSuggestions) near.resize(kMostSuggestions);
  return near.empty() ? "; `taxon recipes` lists them"
                      : fmt::format("; did you mean {}?", fmt::join(near, ", "));
}

template <class Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

}  // namespace

std::string recipe_folder(const std::string& folder) {
  for (fs::path at = folder;; at = at.parent_path()) {
    for (const char* place : {"share/taxon/recipes", "recipes"})
      if (std::error_code ignored; fs::is_directory(at / place / "systems", ignored)) return at / place;
    if (at == at.parent_path()) return {};
  }
}

std::string recipe_folder() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  return failed ? std::string() : recipe_folder(program.parent_path());
}

std::vector<KnownRecipe> known_recipes(const std::string& folder) {
  std::vector<KnownRecipe> recipes;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored))
    if (entry.path().extension() == ".yaml") recipes.push_back({entry.path().stem(), entry.path()});
  std::sort(recipes.begin(), recipes.end(),
            [](const KnownRecipe& a, const KnownRecipe& b) { return a.name < b.name; });
  return recipes;
}

std::string find_recipe(const std::string& word, const std::string& folder) {
  std::error_code ignored;
  if (fs::is_regular_file(word, ignored) || word.find('/') != std::string::npos || word.ends_with(".yaml"))
    return word;
  const std::vector<KnownRecipe> recipes = known_recipes(folder);
  std::vector<std::string> names;
  for (const KnownRecipe& recipe : recipes) {
    if (recipe.name == word) return recipe.path;
    names.push_back(recipe.name);
  }
  const std::string where =
      folder.empty() ? "no recipes are installed" : "no recipe of that name in " + folder;
  throw Error(ErrorKind::Usage,
              fmt::format("there is no file \"{}\", and {}{}", word, where, suggestions(word, names)));
}

plan::Catalogue catalogue(const exchange::Extensions& own) {
  plan::Catalogue known = exchange::catalogue(own);
  known.models = model::known_models();
  known.tasks = model::known_tasks();
  known.datasets = data::known_datasets();
  known.transforms = data::known_transforms();
  known.transports = net::transport_names();
  return known;
}

static plan::Catalogue without_models(const exchange::Extensions& own) {
  plan::Catalogue known = job::catalogue(own);
  known.may_lack_models = true;
  return known;
}

plan::Plan read_recipe(const std::string& path, const std::vector<std::string>& overrides,
                       const exchange::Extensions& own) {
  const plan::Catalogue known = without_models(own);
  return plan::read_plan(path, overrides, &known);
}

plan::Plan parse_recipe(const std::string& yaml, const std::string& origin,
                        const std::vector<std::string>& overrides, const exchange::Extensions& own) {
  const plan::Catalogue known = without_models(own);
  return plan::parse_plan(yaml, origin, overrides, &known);
}

std::vector<plan::Problem> check_run(const plan::Plan& plan, int world_size,
                                     const exchange::Extensions& own) {
  std::vector<plan::Problem> problems = plan::check_plan(plan, world_size, job::catalogue(own));
  for (const net::TransportChoice& choice : net::transport_choices()) {
    if (choice.name != plan.transport.kind) continue;
    if (std::string missing = net::what_is_missing(choice); !missing.empty())
      problems.push_back({"transport.kind", std::move(missing)});
    if (plan.transport.encryption == plan::Encryption::Tls && !net::can_encrypt(choice))
      problems.push_back({"transport.encryption", net::kHowToEncrypt});
  }
  return problems;
}

}  // namespace taxon::job
