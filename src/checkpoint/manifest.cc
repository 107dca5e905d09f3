#include "checkpoint/manifest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace taxon::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "taxon checkpoint";
constexpr const char* kOwnHash = "manifest_xxh64";

std::string hash_of(const Json& json) {
  std::string text = json.dump();
  return hash_text(as_const_view(std::span<const char>(text)));
}

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::Checkpoint, path + ": " + what, {{}, "read checkpoint", path});
}

Json parse(ConstView text, const std::string& path) {
  auto* first = reinterpret_cast<const char*>(text.data());
  try {
    return Json::parse(first, first + text.size());
  } catch (const Json::exception&) {
    fail(path, "is cut short or damaged: it is no JSON; resume from an older checkpoint");
  }
}

/// The format's name and version are looked at before anything else: a later version may change the rest.
void require_format(const Json& json, const std::string& path) {
  if (!json.is_object() || json.value("format", Json()) != kFormat || !json.contains("format_version") ||
      !json["format_version"].is_number_integer())
    fail(path, "is no manifest of a Taxon checkpoint");
  auto version = json["format_version"].get<std::int64_t>();
  if (version > kFormatVersion)
    fail(path,
         fmt::format("has checkpoint format {}, written by Taxon {}; this Taxon reads up to {}: use that "
                     "version or a newer one",
                     version, json.value("taxon_version", Json("?")).dump(), kFormatVersion));
}

void require_own_hash(Json json, const std::string& path) {
  Json stored = json.value(kOwnHash, Json());
  json.erase(kOwnHash);
  if (stored != hash_of(json)) fail(path, "is damaged: it does not match its own hash");
}

}  // namespace

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
    json.at("seed").get_to(manifest.seed);
    json.at("world_size").get_to(manifest.world_size);
    json.at("steps").get_to(manifest.steps);
    json.at("samples").get_to(manifest.samples);
    for (auto& [name, entry] : json.at("files").items())
      manifest.files[name] = {entry.at("bytes").get<std::uint64_t>(), entry.at("xxh64").get<std::string>()};
  } catch (const Json::exception& error) {
    fail(path, std::string("is damaged: ") + error.what());
  }
  return manifest;
}

}  // namespace taxon::checkpoint
