#include "job/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "data/storage.h"

namespace taxon::job {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAside = "replaced-run";

/// What a run writes into its folder: files, or, below a folder, those whose names begin so. In the order in
/// which they go: summary.json makes a run look whole, and checkpoints are what is left of it.
struct RunEntry {
  std::string_view name, below;
};
constexpr RunEntry kRunEntries[] = {{"summary.json", ""},
                                    {"model.safetensors", ""},
                                    {"metrics.jsonl", ""},
                                    {"trace.json", ""},
                                    {"tensorboard", "events.out.tfevents."},
                                    {"plan.yaml", ""},
                                    {"checkpoints", "latest"},
                                    {"checkpoints", "step-"}};

[[noreturn]] void fail(const fs::path& path, const std::error_code& error) {
  throw Error(ErrorKind::Output, fmt::format("{}: cannot be written: {}", path.string(), error.message()),
              {{}, "write", path.string()});
}

/// The run's entries in a folder, relative to it.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (const RunEntry& entry : kRunEntries) {
    const fs::path path = folder / entry.name;
    if (entry.below.empty()) {
      if (fs::exists(path, ignored)) entries.emplace_back(entry.name);
      continue;
    }
    std::vector<fs::path> found;
    for (const fs::directory_entry& file : fs::directory_iterator(path, ignored))
      if (file.path().filename().string().starts_with(entry.below))
        found.push_back(fs::path(entry.name) / file.path().filename());
    std::sort(found.begin(), found.end());
    entries.insert(entries.end(), found.begin(), found.end());
  }
  return entries;
}

bool has_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  const auto entries = entries_of(folder);
  return std::any_of(entries.begin(), entries.end(), [&](const fs::path& entry) {
    return fs::exists(folder / entry / "manifest.json", ignored);
  });
}

void remove_entries(const fs::path& folder) {
  for (const fs::path& entry : entries_of(folder)) {
    std::error_code error;
    fs::remove_all(folder / entry, error);
    if (error) fail(folder / entry, error);
  }
}

/// What holds nothing any more.
void remove_empty_folders(const fs::path& folder) {
  for (const RunEntry& entry : kRunEntries)
    if (!entry.below.empty()) rmdir((folder / entry.name).c_str());
}

void move_aside(const fs::path& folder) {
  const fs::path aside = folder / kAside;
  std::error_code error;
  if (fs::exists(aside, error)) {
    // A run was replaced before, by one that either has a checkpoint or is nothing to keep.
    if (!has_checkpoint(folder)) return remove_entries(folder);
    fs::remove_all(aside, error);
    if (error) fail(aside, error);
  }
  for (const fs::path& entry : entries_of(folder)) {
    fs::create_directories((aside / entry).parent_path(), error);
    if (!error) fs::rename(folder / entry, aside / entry, error);
    if (error) fail(folder / entry, error);
  }
  remove_empty_folders(folder);
}

void require_free(const std::string& folder, Existing existing) {
  const auto entries = entries_of(folder);
  if (entries.empty() || existing != Existing::Refuse) return;
  throw Error(ErrorKind::Usage, fmt::format("{0} holds a run already ({1}): continue it with --resume, "
                                            "replace it with --overwrite, or choose another --out",
                                            folder, entries.front().begin()->string()));
}

}  // namespace

void check_run_folder(const std::string& folder, Existing existing) {
  require_free(folder, existing);
  if (const auto holder = RunLock::holder(folder))
    throw Error(ErrorKind::Usage,
                fmt::format("{} is in use by {}: wait for it, or choose another --out", folder, *holder));
  std::error_code unknown;  // the probe says why
  const bool there = fs::exists(folder, unknown);
  data::FileStorage storage;
  std::byte probe{0};
  storage.write_atomic(folder + "/.probe", ConstView(&probe, 1));
  storage.remove(folder + "/.probe");
  if (!there) rmdir(folder.c_str());
}

RunFolder::RunFolder(std::string folder, Existing existing, std::function<void(const std::string&)> say)
    : folder_(std::move(folder)), existing_(existing), say_(std::move(say)), lock_(folder_, say_) {
  require_free(folder_, existing_);
}

RunFolder::~RunFolder() {
  if (old_ == Old::Aside)
    say_(fmt::format("the run that was to be replaced is kept in {}/{}", folder_, kAside));
}

void RunFolder::begin() {
  if (existing_ == Existing::Resume) {
    std::error_code error;
    fs::remove(fs::path(folder_) / "summary.json", error);
    if (error) fail(fs::path(folder_) / "summary.json", error);
  }
  if (existing_ == Existing::Overwrite) move_aside(folder_);
  std::error_code unknown;
  if (fs::exists(fs::path(folder_) / kAside, unknown)) old_ = Old::Aside;
}

void RunFolder::secured() {
  if (old_ == Old::None) return;
  std::error_code error;
  fs::remove_all(fs::path(folder_) / kAside, error);
  if (error) fail(fs::path(folder_) / kAside, error);
  old_ = Old::None;
}

}  // namespace taxon::job
