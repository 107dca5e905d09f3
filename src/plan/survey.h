#pragma once

#include <span>
#include <string>
#include <string_view>

namespace taxon::plan {

/// A system of the survey (Langer et al., "Distributed training of deep learning models: a taxonomic
/// perspective", TPDS 2020, and what came after), and how much of it Taxon has.
struct SurveyRow {
  std::string_view system;
  std::string_view source;   // who published it, where and when; of software, since when it is there
  std::string_view recipes;  // of recipes/systems, separated by spaces; empty: none
  std::string_view missing;  // what of its place on the axes is out of reach, and why; empty: nothing
};
/// In the order of their names. A system has a recipe, or something is missing, or both; every recipe of
/// recipes/systems is a system's.
std::span<const SurveyRow> survey();

/// The same as a table in Markdown, whose recipes are links for recipes/systems/README.md.
std::string survey_table();

}  // namespace taxon::plan
