#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace taxon::model::exported {

/// The members of a file that torch.export.save wrote: a zip whose members lie in one folder, not compressed.
class Archive {
 public:
  /// Reads the file into memory, but for its sample inputs. Throws Error{Data}: there is no such file, it is
  /// no zip, cut short or damaged (checksums are compared), compressed, or has a member twice.
  explicit Archive(const std::string& path);

  /// `name` without the zip's folder, such as "models/model.json"; null: there is none.
  const std::vector<std::byte>* find(const std::string& name) const;
  /// As find(). Throws Error{Data} where there is none.
  const std::vector<std::byte>& at(const std::string& name) const;
  std::string text(const std::string& name) const;  // as at()
  /// Names of members that begin with `folder`, in order.
  std::vector<std::string> names(const std::string& folder) const;

 private:
  std::map<std::string, std::vector<std::byte>> members_;
};

}  // namespace taxon::model::exported
