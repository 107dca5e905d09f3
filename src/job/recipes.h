#pragma once

#include <string>
#include <vector>

#include "exchange/extensions.h"
#include "plan/catalogue.h"
#include "plan/plan.h"

namespace taxon::job {

/// A recipe that comes with Taxon.
struct KnownRecipe {
  std::string name;  // of its file, without .yaml
  std::string path;
};

/// Where recipes lie that came with a program in `folder`: share/taxon/recipes of its installation, or
/// recipes/ of the source tree that it was built in. Empty: nowhere.
std::string recipe_folder(const std::string& folder);
/// The same of this program.
std::string recipe_folder();

/// All recipes of the folder and the folders in it, by name.
std::vector<KnownRecipe> known_recipes(const std::string& folder);

/// The file that `word` means: itself, if there is a file of that name, else the recipe of that name in
/// `folder`. A word that looks like a path (a slash, or .yaml at its end) means itself in any case. Throws
/// Error{Usage} that lists the nearest names.
std::string find_recipe(const std::string& word, const std::string& folder);

/// Every name that a plan may use: from the tables, and those of a program's own rows.
plan::Catalogue catalogue(const exchange::Extensions& own = {});

/// The recipe with `overrides` laid over it; whatever is wrong with either, names and rows' keys included, is
/// one Error{Usage}. `own`, here and below: what it may name beside rows of the tables.
/// Models are not asked: a profile may stand for one that this program lacks. check_run() asks for them.
plan::Plan read_recipe(const std::string& path, const std::vector<std::string>& overrides = {},
                       const exchange::Extensions& own = {});
/// The same of a recipe's text; `origin` names it in messages.
plan::Plan parse_recipe(const std::string& yaml, const std::string& origin,
                        const std::vector<std::string>& overrides = {}, const exchange::Extensions& own = {});
/// What check_plan() says of a plan that is to be run here, and what this build lacks for it.
std::vector<plan::Problem> check_run(const plan::Plan& plan, int world_size,
                                     const exchange::Extensions& own = {});

}  // namespace taxon::job
