#pragma once

#include <algorithm>
#include <cctype>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/rng.h"
#include "checkpoint/manifest.h"
#include "data/storage.h"

namespace taxon::checkpoint {

/// Damages a file in some way; returns which. REQUIRES: it is not empty.
inline std::string damage(std::vector<std::byte>& file, Rng& rng) {
  const std::size_t at = rng.below(file.size());
  auto here = file.begin() + static_cast<std::ptrdiff_t>(at);
  const auto place = [&](const char* what) { return std::string(what) + " at " + std::to_string(at); };
  switch (rng.below(6)) {
    case 0:
      file.resize(at);
      return place("cut");
    case 1:
      *here ^= static_cast<std::byte>(1U << rng.below(8));
      return place("flipped");
    case 2: {
      const std::size_t count = std::min<std::size_t>(file.size() - at, 1 + rng.below(64));
      file.erase(here, here + static_cast<std::ptrdiff_t>(count));
      return place("hole");
    }
    case 3: {
      std::vector<std::byte> junk(1 + rng.below(64));
      for (std::byte& byte : junk) byte = static_cast<std::byte>(rng.below(256));
      file.insert(here, junk.begin(), junk.end());
      return place("junk");
    }
    case 4: {
      for (std::size_t i = at; i < std::min(file.size(), at + 64); ++i) file[i] = std::byte{0};
      return place("zeros");
    }
    default: {  // the first number from there on
      auto digit = [](std::byte byte) { return std::isdigit(static_cast<unsigned char>(byte)) != 0; };
      auto first = std::find_if(here, file.end(), digit);
      auto last = std::find_if_not(first, file.end(), digit);
      constexpr const char* kNumbers[] = {
          "-5",   "0",    "1",        "4611686018427387904", "18446744073709551616", "1e300", "-0",
          "null", "\"\"", "999999999"};
      const std::string number = kNumbers[rng.below(std::size(kNumbers))];
      auto* bytes = reinterpret_cast<const std::byte*>(number.data());
      file.insert(file.erase(first, last), bytes, bytes + number.size());
      return place("another number");
    }
  }
}

/// Changes the manifest of the checkpoint at `path`, and its own hash with it.
inline void forge(data::Storage& storage, const std::string& path,
                  const std::function<void(nlohmann::ordered_json&)>& change) {
  const std::string file = path + "/manifest.json";
  const auto bytes = storage.read(file);
  auto* first = reinterpret_cast<const char*>(bytes.data());
  auto json = nlohmann::ordered_json::parse(first, first + bytes.size(), nullptr, false);
  if (json.is_discarded() || !json.is_object()) return;
  change(json);
  json.erase("manifest_xxh64");
  const std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  json["manifest_xxh64"] = hash_text(as_const_view(std::span<const char>(text)));
  const std::string whole = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  storage.write_atomic(file, as_const_view(std::span<const char>(whole)));
}

/// The manifest lists every file as it is now.
inline void vouch_for_all(data::Storage& storage, const std::string& path) {
  forge(storage, path, [&](nlohmann::ordered_json& json) {
    for (const std::string& name : storage.list(path)) {
      if (name == "manifest.json" || !json.contains("files") || !json["files"].is_object()) continue;
      const auto bytes = storage.read(path + "/" + name);
      const FileEntry entry = describe_file(ConstView(bytes.data(), bytes.size()));
      json["files"][name] = {{"bytes", entry.bytes}, {"xxh64", entry.hash}};
    }
  });
}

}  // namespace taxon::checkpoint
