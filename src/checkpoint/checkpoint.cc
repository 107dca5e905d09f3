#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <new>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "tensor/finite.h"

namespace taxon::checkpoint {
namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kPlan = "plan.yaml";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kOptimiser = "optimiser.safetensors";
constexpr const char* kLatest = "latest";

std::string rank_file(std::size_t rank) { return fmt::format("rank-{:05}.safetensors", rank); }
std::string home(const std::string& folder) { return folder + "/checkpoints"; }

ConstView view(const std::vector<std::byte>& bytes) { return ConstView(bytes.data(), bytes.size()); }
ConstView view(const std::string& text) { return as_const_view(std::span<const char>(text)); }

// --- folders -------------------------------------------------------------------------------------------

/// step-00001234, or step-00001234-2 when a complete one of that step was there already.
struct FolderName {
  std::int64_t step = 0;
  int copy = 1;
  auto operator<=>(const FolderName&) const = default;  // NOLINT(modernize-use-nullptr): sees a 0 in it
  std::string text() const {
    return copy == 1 ? fmt::format("step-{:08}", step) : fmt::format("step-{:08}-{}", step, copy);
  }
  static std::optional<FolderName> parse(std::string_view text) {
    FolderName name;
    constexpr std::string_view kPrefix = "step-";
    if (!text.starts_with(kPrefix)) return std::nullopt;
    const char* last = text.data() + text.size();
    auto step = std::from_chars(text.data() + kPrefix.size(), last, name.step);
    if (step.ec != std::errc()) return std::nullopt;
    if (step.ptr != last) {
      if (*step.ptr != '-' || std::from_chars(step.ptr + 1, last, name.copy).ec != std::errc())
        return std::nullopt;
    }
    if (name.text() != text) return std::nullopt;  // one spelling for each
    return name;
  }
};

bool is_complete(const data::Storage& storage, const std::string& path) {
  return storage.exists(path + "/" + kManifest);
}

/// Complete ones, the oldest first.
std::vector<FolderName> complete_ones(const data::Storage& storage, const std::string& folder) {
  std::vector<FolderName> names;
  for (const std::string& entry : storage.list(home(folder)))
    if (auto name = FolderName::parse(entry); name && is_complete(storage, home(folder) + "/" + entry))
      names.push_back(*name);
  std::sort(names.begin(), names.end());
  return names;
}

// --- reading -------------------------------------------------------------------------------------------

std::vector<std::byte> read_file(const data::Storage& storage, const std::string& path) {
  try {
    return storage.read(path);
  } catch (const Error& error) {
    throw Error(ErrorKind::Checkpoint, error.what(), {{}, "read checkpoint", path});
  } catch (const std::bad_alloc&) {
    fail_checkpoint(path, "is larger than this machine's memory");
  } catch (const std::length_error&) {
    fail_checkpoint(path, "is larger than any memory");
  }
}

Manifest manifest_of(const data::Storage& storage, const std::string& path) {
  const std::string file = path + "/" + kManifest;
  if (!storage.exists(file))
    fail_checkpoint(path, fmt::format("is no complete checkpoint: it has no {}", kManifest));
  return read_manifest(view(read_file(storage, file)), file);
}

bool is_finite(const data::Storage& storage, const std::string& path) {
  try {
    return manifest_of(storage, path).finite;
  } catch (const Error&) {
    return false;
  }
}

/// The manifest goes first: what remains when this is interrupted is no checkpoint any more.
void discard(data::Storage& storage, const std::string& path) {
  storage.remove(path + "/" + kManifest);
  storage.remove(path);
}

void prune(data::Storage& storage, const std::string& folder, FolderName newest, int keep,
           bool newest_is_finite) {
  // Steps beyond the newest belong to another run in this folder, which is not ours to remove.
  std::vector<FolderName> names = complete_ones(storage, folder);
  std::erase_if(names, [&](FolderName name) { return name.step > newest.step; });
  std::erase(names, newest);
  std::size_t kept = 1;
  bool one_is_finite = newest_is_finite;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const std::string path = home(folder) + "/" + name->text();
    const bool old = name->step == newest.step || ++kept > static_cast<std::size_t>(std::max(keep, 1));
    const bool only_finite = !one_is_finite && is_finite(storage, path);
    one_is_finite |= only_finite;
    if (old && !only_finite) discard(storage, path);
  }
}

/// The bytes of a file that the manifest vouches for.
std::vector<std::byte> read_verified(const data::Storage& storage, const std::string& path,
                                     const Manifest& manifest, const std::string& name) {
  auto entry = manifest.files.find(name);
  std::string file = path + "/" + name;
  if (entry == manifest.files.end())
    fail_checkpoint(path + "/" + kManifest, "is damaged: it does not list " + name);
  if (!storage.exists(file)) fail_checkpoint(file, "is missing; resume from an older checkpoint");
  std::vector<std::byte> bytes = read_file(storage, file);
  if (bytes.size() != entry->second.bytes)
    fail_checkpoint(
        file, fmt::format("is cut short or of another checkpoint: it has {} bytes instead of {}; resume "
                          "from an older checkpoint",
                          bytes.size(), entry->second.bytes));
  if (hash_text(view(bytes)) != entry->second.hash)
    fail_checkpoint(file, "is damaged: its hash is not the manifest's; resume from an older checkpoint");
  return bytes;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// What `weights` has and `model` has not, and the other way round, in words.
std::vector<std::string> differences(const std::vector<LogicalTensor>& weights,
                                     const std::vector<LogicalTensor>& model) {
  std::map<std::string, const LogicalTensor*> unseen;
  for (const LogicalTensor& tensor : weights) unseen[tensor.name] = &tensor;
  std::vector<std::string> list;
  for (const LogicalTensor& tensor : model) {
    auto found = unseen.find(tensor.name);
    if (found == unseen.end()) {
      list.push_back(fmt::format("{} {} is missing", tensor.name, shape_text(tensor.shape)));
      continue;
    }
    if (found->second->shape != tensor.shape)
      list.push_back(fmt::format("{} is {} there and {} in the model", tensor.name,
                                 shape_text(found->second->shape), shape_text(tensor.shape)));
    unseen.erase(found);
  }
  for (const LogicalTensor& tensor : weights)
    if (unseen.contains(tensor.name))
      list.push_back(fmt::format("{} {} is not in the model", tensor.name, shape_text(tensor.shape)));
  return list;
}

/// The complete one that is named; none if that is not so.
std::optional<FolderName> named_latest(const data::Storage& storage, const std::string& folder) {
  std::string pointer = home(folder) + "/" + kLatest;
  if (storage.exists(pointer)) {
    std::vector<std::byte> bytes = read_file(storage, pointer);
    std::string_view line(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (line.ends_with('\n')) {  // otherwise it is cut short
      auto name = FolderName::parse(line.substr(0, line.size() - 1));
      if (name && is_complete(storage, home(folder) + "/" + name->text())) return name;
    }
  }
  return std::nullopt;
}

/// Complete ones to go on from, the best first. Those beyond `latest` are another run's.
std::vector<FolderName> newest_first(const data::Storage& storage, const std::string& folder) {
  std::vector<FolderName> names = complete_ones(storage, folder);
  std::reverse(names.begin(), names.end());
  if (const auto latest = named_latest(storage, folder)) {
    std::erase_if(names, [&](FolderName name) { return name.step > latest->step || name == *latest; });
    names.insert(names.begin(), *latest);
  }
  return names;
}

}  // namespace

std::string save(data::Storage& storage, const std::string& folder, const Checkpoint& checkpoint, int keep) {
  TAXON_CHECK(checkpoint.per_rank.size() == static_cast<std::size_t>(checkpoint.world_size),
              "per_rank=", checkpoint.per_rank.size(), " world_size=", checkpoint.world_size);
  FolderName name{checkpoint.steps};
  auto path = [&] { return home(folder) + "/" + name.text(); };
  while (is_complete(storage, path())) ++name.copy;
  storage.remove(path());  // what an interrupted save left

  Manifest manifest{.taxon_version = checkpoint.taxon_version,
                    .model_hash = model_hash(checkpoint.weights),
                    .seed = checkpoint.seed,
                    .world_size = checkpoint.world_size,
                    .steps = checkpoint.steps,
                    .samples = checkpoint.samples,
                    .finite = !find_not_finite(checkpoint)};
  auto write = [&](const std::string& file, ConstView bytes) {
    manifest.files[file] = describe_file(bytes);
    storage.write_atomic(path() + "/" + file, bytes);
  };
  write(kPlan, view(checkpoint.plan_yaml));
  write(kWeights, view(encode_safetensors(checkpoint.weights)));
  write(kOptimiser, view(encode_safetensors(checkpoint.optimiser)));
  for (std::size_t rank = 0; rank < checkpoint.per_rank.size(); ++rank)
    write(rank_file(rank), view(encode_safetensors(checkpoint.per_rank[rank])));
  storage.write_atomic(path() + "/" + kManifest, view(write_manifest(manifest)));
  storage.write_atomic(home(folder) + "/" + kLatest, view(name.text() + "\n"));
  prune(storage, folder, name, keep, manifest.finite);
  return path();
}

std::optional<std::string> find_not_finite(const Checkpoint& checkpoint) {
  std::vector<const std::vector<LogicalTensor>*> all = {&checkpoint.weights, &checkpoint.optimiser};
  for (const auto& tensors : checkpoint.per_rank) all.push_back(&tensors);
  for (const auto* tensors : all)
    for (const LogicalTensor& tensor : *tensors)
      if (!tensor::all_finite(tensor.type, view(tensor.bytes)) &&
          std::find(checkpoint.frozen.begin(), checkpoint.frozen.end(), tensor.name) ==
              checkpoint.frozen.end())
        return tensor.name;
  return std::nullopt;
}

std::optional<std::string> find_latest(const data::Storage& storage, const std::string& folder) {
  const std::vector<FolderName> names = newest_first(storage, folder);
  if (names.empty()) return std::nullopt;
  return home(folder) + "/" + names.front().text();
}

std::optional<Found> load_newest(const data::Storage& storage, const std::string& folder, Weights weights) {
  const std::vector<FolderName> names = newest_first(storage, folder);
  std::vector<std::string> passed_over;
  for (FolderName name : names) {
    const std::string path = home(folder) + "/" + name.text();
    try {
      if (weights == Weights::Finite && !manifest_of(storage, path).finite)
        fail_checkpoint(path, "has weights that are not finite; on_divergence: ignore goes on with them");
      return Found{path, load(storage, path), std::move(passed_over)};
    } catch (const NewerFormat&) {
      throw;
    } catch (const Error& error) {
      passed_over.emplace_back(error.what());
    }
  }
  if (names.empty()) return std::nullopt;
  throw Error(ErrorKind::Checkpoint, passed_over.front(), {{}, "read checkpoint", folder});
}

Found load_step(const data::Storage& storage, const std::string& folder, std::int64_t step) {
  const std::vector<FolderName> names = complete_ones(storage, folder);
  const auto found =
      std::find_if(names.rbegin(), names.rend(), [&](FolderName name) { return name.step == step; });
  if (found == names.rend()) {
    std::vector<std::int64_t> steps;
    for (FolderName name : names) steps.push_back(name.step);
    fail_checkpoint(home(folder), steps.empty()
                                      ? fmt::format("has no checkpoint of step {}, and no other", step)
                                      : fmt::format("has no checkpoint of step {}: there are those of {}",
                                                    step, fmt::join(steps, ", ")));
  }
  const std::string path = home(folder) + "/" + found->text();
  return {path, load(storage, path), {}};
}

Checkpoint load(const data::Storage& storage, const std::string& path) {
  const Manifest manifest = manifest_of(storage, path);
  constexpr std::size_t kFilesOfAll = 3;  // the plan, the weights, the optimiser's state
  if (manifest.files.size() != kFilesOfAll + static_cast<std::size_t>(manifest.world_size))
    fail_checkpoint(path, fmt::format("is damaged: its manifest lists {} files for a world size of {}",
                                      manifest.files.size(), manifest.world_size));
  Checkpoint checkpoint{.taxon_version = manifest.taxon_version,
                        .seed = manifest.seed,
                        .world_size = manifest.world_size,
                        .steps = manifest.steps,
                        .samples = manifest.samples};
  auto tensors = [&](const std::string& name) {
    std::vector<std::byte> bytes = read_verified(storage, path, manifest, name);
    return decode_safetensors(view(bytes), path + "/" + name);
  };
  std::vector<std::byte> plan = read_verified(storage, path, manifest, kPlan);
  checkpoint.plan_yaml.assign(reinterpret_cast<const char*>(plan.data()), plan.size());
  checkpoint.weights = tensors(kWeights);
  checkpoint.optimiser = tensors(kOptimiser);
  for (int rank = 0; rank < manifest.world_size; ++rank)
    checkpoint.per_rank.push_back(tensors(rank_file(static_cast<std::size_t>(rank))));
  if (model_hash(checkpoint.weights) != manifest.model_hash)
    fail_checkpoint(path, "is damaged: its weights are not of the model that its manifest names");
  return checkpoint;
}

void require_same_model(const std::vector<LogicalTensor>& weights, const std::vector<LogicalTensor>& model,
                        const std::string& path) {
  std::vector<std::string> all = differences(weights, model);
  if (all.empty()) return;
  constexpr std::size_t kShown = 4;
  std::size_t more = all.size() - std::min(kShown, all.size());
  all.resize(all.size() - more);
  if (more > 0) all.push_back(fmt::format("and {} more", more));
  fail_checkpoint(path, fmt::format("is a checkpoint of another model: {}", fmt::join(all, "; ")));
}

std::string model_hash(const std::vector<LogicalTensor>& weights) {
  std::string text;
  for (const LogicalTensor& tensor : weights) text += tensor.name + " " + shape_text(tensor.shape) + "\n";
  return hash_text(view(text));
}

}  // namespace taxon::checkpoint
