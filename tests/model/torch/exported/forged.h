#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace taxon::model::exported {

/// A file made out of one in networks/, in a folder that goes with the object.
class Forged {
 public:
  explicit Forged(const std::string& network);
  ~Forged();
  Forged(const Forged&) = delete;

  /// Replaces a text in the graph, or in the table of weights, everywhere. Fails the test where it is not
  /// there.
  Forged& graph(const std::string& old_text, const std::string& new_text);
  Forged& weights(const std::string& old_text, const std::string& new_text);
  Forged& remove(const std::string& member);
  Forged& member(const std::string& name, const std::string& contents);

  enum class Packing { Stored, Deflated };
  /// The members in a new zip. Returns its path.
  std::string save(Packing packing = Packing::Stored) const;
  /// The bytes as a file. Returns its path.
  std::string save_bytes(const std::string& bytes) const;

 private:
  void replace(const std::string& member, const std::string& old_text, const std::string& new_text);

  std::filesystem::path folder_;
  std::map<std::string, std::string> members_;
};

}  // namespace taxon::model::exported
