#include "model/torch/exported/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string_view>

#include "model/torch/exported/fail.h"

namespace taxon::model::exported {
namespace {

constexpr std::size_t kBlock = 64 << 10;
constexpr std::size_t kPiece = 16 << 20;  // memory that is asked for before bytes for it were seen
constexpr std::string_view kUnread = "data/sample_inputs/";  // a pickle

/// libarchive's reader of a zip.
class ZipReader {
 public:
  explicit ZipReader(const std::string& path) : archive_(archive_read_new(), archive_read_free) {
    if (!archive_) fail("no memory to read it");
    archive_read_support_format_zip_seekable(get());
    if (archive_read_open_filename(get(), path.c_str(), kBlock) != ARCHIVE_OK)
      fail(fmt::format("is no zip archive, as torch.export.save writes, or is cut short: {}", why()));
  }
  /// Null: there are no more.
  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(get(), &entry);
    if (result == ARCHIVE_EOF) return nullptr;
    if (result != ARCHIVE_OK)
      fail(fmt::format("is no whole zip archive, as torch.export.save writes: {}", why()));
    return entry;
  }
  /// The contents of the member whose header came last.
  std::vector<std::byte> contents(const std::string& name, std::size_t size) {
    std::vector<std::byte> bytes;
    while (bytes.size() < size) {
      const std::size_t begin = bytes.size();
      bytes.resize(std::min(size, begin + kPiece));
      const la_ssize_t count = archive_read_data(get(), bytes.data() + begin, bytes.size() - begin);
      if (count <= 0) fail(fmt::format("is cut short or damaged in {}: {}", name, why()));
      bytes.resize(begin + static_cast<std::size_t>(count));
    }
    std::byte more{};
    // Checksums are compared where the contents end.
    if (archive_read_data(get(), &more, 1) != 0) fail(fmt::format("is damaged in {}: {}", name, why()));
    return bytes;
  }

 private:
  archive* get() { return archive_.get(); }
  std::string why() {
    const char* text = archive_error_string(get());
    return text ? text : "it ends early";
  }
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

}  // namespace

Archive::Archive(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) fail("there is no such file");
  const std::size_t limit = std::filesystem::file_size(path);
  ZipReader reader(path);
  std::size_t total = 0;
  while (archive_entry* entry = reader.next()) {
    const char* full = archive_entry_pathname(entry);
    const std::string_view whole = full ? full : "";
    if (whole.empty() || whole.ends_with('/')) continue;
    const std::size_t slash = whole.find('/');
    const std::string name(slash == std::string_view::npos ? whole : whole.substr(slash + 1));
    const la_int64_t size = archive_entry_size(entry);
    if (size < 0 || static_cast<std::size_t>(size) > limit - total)
      fail(fmt::format("is compressed or damaged: {} would be larger than the file", name));
    total += static_cast<std::size_t>(size);
    if (name.starts_with(kUnread)) continue;
    if (!members_.emplace(name, reader.contents(name, static_cast<std::size_t>(size))).second)
      fail(fmt::format("is damaged: it has {} twice", name));
  }
}

const std::vector<std::byte>* Archive::find(const std::string& name) const {
  const auto member = members_.find(name);
  return member == members_.end() ? nullptr : &member->second;
}

const std::vector<std::byte>& Archive::at(const std::string& name) const {
  if (const auto* bytes = find(name)) return *bytes;
  fail(fmt::format("has no {}", name));
}

std::string Archive::text(const std::string& name) const {
  const auto& bytes = at(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> Archive::names(const std::string& folder) const {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : members_)
    if (name.starts_with(folder)) names.push_back(name);
  return names;
}

}  // namespace taxon::model::exported
