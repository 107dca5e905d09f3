#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace taxon::data {

/// Where the parts of a data set lie; empty: there is none.
struct Halves {
  std::string train, test, validation;
};

/// A training set is the file `path`, or lies in the folder of that name as train<ending>, with test<ending>,
/// or else val<ending>, beside it; `endings` are tried in turn. The plan's test_path and validation_path are
/// files, or such folders. Throws Error{Data} if there is no training set, or none where the plan has a path.
Halves find_files(const OpenContext& context, std::span<const std::string_view> endings);

/// The data sets that `open(path)` makes of those files, the training set's first.
template <class Open>
Datasets open_files(const OpenContext& context, std::span<const std::string_view> endings, Open&& open) {
  const Halves files = find_files(context, endings);
  Datasets sets{.train = open(files.train)};
  if (!files.test.empty()) sets.test = open(files.test);
  if (!files.validation.empty()) sets.validation = open(files.validation);
  return sets;
}

/// As find_files() where each set is a folder: path/train and path/test, or else path/val; or `path` itself,
/// if there is no train in it, and the plan's test_path and validation_path.
Halves find_folders(const OpenContext& context);

/// The same where each set has a folder for each class: a folder train that has none in it is a class where
/// others lie beside it, none of them called test, val or validation.
Halves find_class_folders(const OpenContext& context);

/// Folders in this one that have something in them and are not hidden, in the order of their names.
std::vector<std::string> full_folders(const Storage& storage, const std::string& path);

}  // namespace taxon::data
