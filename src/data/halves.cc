#include "data/halves.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "data/storage_errors.h"

namespace taxon::data {
namespace {

constexpr std::string_view kTest[] = {"test", "val", "validation"};
constexpr std::string_view kValidation[] = {"validation", "val", "test"};

bool is_folder(const Storage& storage, const std::string& path) { return !storage.list(path).empty(); }

/// The first of these files; empty: none is there.
std::string first_of(const Storage& storage, const std::string& folder,
                     std::span<const std::string_view> names, std::span<const std::string_view> endings) {
  for (std::string_view name : names)
    for (std::string_view ending : endings)
      if (std::string path = fmt::format("{}/{}{}", folder, name, ending); storage.exists(path)) return path;
  return {};
}

std::string file_of(const Storage& storage, const std::string& path, std::span<const std::string_view> names,
                    std::span<const std::string_view> endings) {
  if (!is_folder(storage, path)) {
    if (!storage.exists(path)) fail_contents(path, "there is no such file or folder");
    return path;
  }
  std::string found = first_of(storage, path, names, endings);
  if (found.empty())
    fail_contents(path, fmt::format("there is no {}{} in this folder", names[0], endings[0]));
  return found;
}

std::string folder_of(const Storage& storage, const std::string& path) {
  if (!is_folder(storage, path)) fail_contents(path, "there is no such folder, or nothing in it");
  return path;
}

/// Whether `path`/train is no half but one class of several, as it may be of vehicles: other folders lie
/// beside it, none of them a half, and it has none in it.
bool is_train_class(const Storage& storage, const std::string& path) {
  const std::vector<std::string> folders = full_folders(storage, path);
  const auto is_half = [](const std::string& name) {
    return std::find(std::begin(kTest), std::end(kTest), name) != std::end(kTest);
  };
  return folders.size() > 1 && std::none_of(folders.begin(), folders.end(), is_half) &&
         full_folders(storage, path + "/train").empty();
}

/// `in_halves`: sets lie below `path`, which is the training set otherwise.
Halves folders_at(const OpenContext& context, bool in_halves) {
  const plan::DataPlan& plan = context.plan;
  const Storage& storage = context.storage;
  Halves halves{.train = folder_of(storage, plan.path)};
  if (in_halves) {
    halves.train = plan.path + "/train";
    for (std::string_view name : {kTest[1], kTest[0]})
      if (std::string path = fmt::format("{}/{}", plan.path, name); is_folder(storage, path))
        halves.test = path;
  }
  if (!plan.test_path.empty()) halves.test = folder_of(storage, plan.test_path);
  if (!plan.validation_path.empty()) halves.validation = folder_of(storage, plan.validation_path);
  return halves;
}

}  // namespace

std::vector<std::string> full_folders(const Storage& storage, const std::string& path) {
  std::vector<std::string> folders;
  for (std::string& name : storage.list(path))
    if (!name.starts_with('.') && is_folder(storage, path + "/" + name)) folders.push_back(std::move(name));
  return folders;
}

Halves find_files(const OpenContext& context, std::span<const std::string_view> endings) {
  const plan::DataPlan& plan = context.plan;
  const Storage& storage = context.storage;
  constexpr std::string_view kTrain[] = {"train"};
  Halves halves{.train = file_of(storage, plan.path, kTrain, endings)};
  if (!plan.test_path.empty())
    halves.test = file_of(storage, plan.test_path, kTest, endings);
  else if (is_folder(storage, plan.path))
    halves.test = first_of(storage, plan.path, kTest, endings);
  if (!plan.validation_path.empty())
    halves.validation = file_of(storage, plan.validation_path, kValidation, endings);
  return halves;
}

Halves find_folders(const OpenContext& context) {
  return folders_at(context, is_folder(context.storage, context.plan.path + "/train"));
}

Halves find_class_folders(const OpenContext& context) {
  const std::string& path = context.plan.path;
  return folders_at(context,
                    is_folder(context.storage, path + "/train") && !is_train_class(context.storage, path));
}

}  // namespace taxon::data
