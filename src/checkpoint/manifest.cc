#include "checkpoint/manifest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace taxon::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "taxon checkpoint";
constexpr const char* kOwnHash = "manifest_xxh64";

// What a manifest may hold: one of that size takes no second to read, and no run comes near the numbers.
constexpr std::size_t kMostBytes = 4 << 20;
constexpr int kMostDepth = 4;
constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int64_t kMostSteps = 1'000'000'000'000'000;
constexpr std::int64_t kMostSamples = kMostSteps * 1000;

std::string hash_of(const Json& json) {
  std::string text = json.dump();
  return hash_text(as_const_view(std::span<const char>(text)));
}

Json parse(ConstView text, const std::string& path) {
  if (text.size() > kMostBytes)
    fail_checkpoint(path,
                    fmt::format("is no manifest of a Taxon checkpoint: it has {} bytes, and {} are allowed",
                                text.size(), kMostBytes));
  auto* first = reinterpret_cast<const char*>(text.data());
  auto check = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMostDepth) fail_checkpoint(path, "is damaged: it is nested too deeply");
    return true;
  };
  try {
    return Json::parse(first, first + text.size(), check);
  } catch (const Json::exception&) {
    fail_checkpoint(path, "is cut short or damaged: it is no JSON; resume from an older checkpoint");
  }
}

/// The format's name and version are looked at before anything else: a later version may change the rest.
void require_format(const Json& json, const std::string& path) {
  if (!json.is_object() || json.value("format", Json()) != kFormat || !json.contains("format_version") ||
      !json["format_version"].is_number_integer())
    fail_checkpoint(path, "is no manifest of a Taxon checkpoint");
  auto version = json["format_version"].get<std::int64_t>();
  if (version > kFormatVersion)
    throw NewerFormat(
        ErrorKind::Checkpoint,
        fmt::format("{}: has checkpoint format {}, written by Taxon {}; this Taxon reads up to {}: use "
                    "that version or a newer one",
                    path, version, json.value("taxon_version", Json("?")).dump(), kFormatVersion),
        {{}, "read checkpoint", path});
}

void require_own_hash(Json json, const std::string& path) {
  Json stored = json.value(kOwnHash, Json());
  json.erase(kOwnHash);
  if (stored != hash_of(json)) fail_checkpoint(path, "is damaged: it does not match its own hash");
}

/// A whole number from `least` to `most`; nothing that would have to be converted.
std::int64_t whole(const Json& json, const char* key, std::int64_t least, std::int64_t most,
                   const std::string& path) {
  const Json& value = json.at(key);
  const bool fits =
      value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    fail_checkpoint(path, fmt::format("is damaged: {} is {}, and must be a whole number from {} to {}", key,
                                      value.dump(), least, most));
  return value.get<std::int64_t>();
}

std::uint64_t unsigned_number(const Json& json, const char* key, const std::string& path) {
  const Json& value = json.at(key);
  if (!value.is_number_unsigned())
    fail_checkpoint(path, fmt::format("is damaged: {} is {}", key, value.dump()));
  return value.get<std::uint64_t>();
}

}  // namespace

void fail_checkpoint(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::Checkpoint, path + ": " + what, {{}, "read checkpoint", path});
}

std::string hash_text(ConstView bytes) {
  return fmt::format("{:016x}", XXH64(bytes.data(), bytes.size(), 0));
}

FileEntry describe_file(ConstView bytes) { return {bytes.size(), hash_text(bytes)}; }

std::string write_manifest(const Manifest& manifest) {
  Json files = Json::object();
  for (const auto& [name, entry] : manifest.files)
    files[name] = Json{{"bytes", entry.bytes}, {"xxh64", entry.hash}};
  Json json{
      {"format", kFormat},
      {"format_version", kFormatVersion},
      {"taxon_version", manifest.taxon_version},
      {"model_hash", manifest.model_hash},
      {"seed", manifest.seed},
      {"world_size", manifest.world_size},
      {"steps", manifest.steps},
      {"samples", manifest.samples},
      {"finite", manifest.finite},
      {"placement", {{"weights", "replicated"}, {"optimiser", "replicated"}, {"ranks", "per rank"}}},
      {"files", std::move(files)},
  };
  json[kOwnHash] = hash_of(json);
  return json.dump(2) + "\n";
}

Manifest read_manifest(ConstView text, const std::string& path) {
  Json json = parse(text, path);
  require_format(json, path);
  require_own_hash(json, path);
  Manifest manifest;
  try {
    json.at("taxon_version").get_to(manifest.taxon_version);
    json.at("model_hash").get_to(manifest.model_hash);
    manifest.seed = unsigned_number(json, "seed", path);
    manifest.world_size = static_cast<int>(whole(json, "world_size", 1, kMostRanks, path));
    manifest.steps = whole(json, "steps", 0, kMostSteps, path);
    manifest.samples = whole(json, "samples", 0, kMostSamples, path);
    if (json.contains("finite")) json.at("finite").get_to(manifest.finite);
    if (!json.at("files").is_object()) fail_checkpoint(path, "is damaged: files is no object");
    for (auto& [name, entry] : json.at("files").items())
      manifest.files[name] = {unsigned_number(entry, "bytes", path), entry.at("xxh64").get<std::string>()};
  } catch (const Json::exception& error) {
    fail_checkpoint(path, std::string("is damaged: ") + error.what());
  }
  return manifest;
}

}  // namespace taxon::checkpoint
