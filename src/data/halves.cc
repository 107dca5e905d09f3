#include "data/halves.h"

#include <fmt/format.h>

#include "base/error.h"

namespace taxon::data {
namespace {

constexpr std::string_view kTest[] = {"test", "val", "validation"};
constexpr std::string_view kValidation[] = {"validation", "val", "test"};

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::Data, fmt::format("{}: {}", path, why), {{}, "read", path});
}

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
    if (!storage.exists(path)) fail(path, "there is no such file or folder");
    return path;
  }
  std::string found = first_of(storage, path, names, endings);
  if (found.empty()) fail(path, fmt::format("there is no {}{} in this folder", names[0], endings[0]));
  return found;
}

std::string folder_of(const Storage& storage, const std::string& path) {
  if (!is_folder(storage, path)) fail(path, "there is no such folder, or nothing in it");
  return path;
}

}  // namespace

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
  const plan::DataPlan& plan = context.plan;
  const Storage& storage = context.storage;
  Halves halves{.train = folder_of(storage, plan.path)};
  if (is_folder(storage, plan.path + "/train")) {
    halves.train = plan.path + "/train";
    for (std::string_view name : {kTest[1], kTest[0]})
      if (std::string path = fmt::format("{}/{}", plan.path, name); is_folder(storage, path))
        halves.test = path;
  }
  if (!plan.test_path.empty()) halves.test = folder_of(storage, plan.test_path);
  if (!plan.validation_path.empty()) halves.validation = folder_of(storage, plan.validation_path);
  return halves;
}

}  // namespace taxon::data
