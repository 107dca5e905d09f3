#include "data/tar_shard.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/check.h"
#include "base/error.h"
#include "data/storage_errors.h"

namespace taxon::data {
namespace {

constexpr std::size_t kBlock = 64 << 10;

/// Feeds libarchive with a range of a file; contents that it skips are not read. Its callbacks are C, through
/// which nothing may be thrown.
class TarReader {
 public:
  TarReader(const Storage& storage, const std::string& path, std::uint64_t begin, std::uint64_t end)
      : storage_(storage),
        path_(path),
        at_(begin),
        end_(end),
        archive_(archive_read_new(), archive_read_free) {
    TAXON_CHECK(archive_ != nullptr);
    archive_read_support_format_tar(get());
    // `cat` joins archives, each with its end mark.
    TAXON_CHECK(archive_read_set_format_option(get(), "tar", "read_concatenated_archives", "1") ==
                ARCHIVE_OK);
    archive_read_set_callback_data(get(), this);
    archive_read_set_read_callback(get(), read);
    archive_read_set_skip_callback(get(), skip);
    opened_ = archive_read_open1(get()) == ARCHIVE_OK;
    rethrow();
  }
  TarReader(const TarReader&) = delete;

  bool opened() const { return opened_; }
  archive* get() { return archive_.get(); }
  /// The next header: ARCHIVE_OK, ARCHIVE_EOF or what is wrong.
  int next(archive_entry** entry) {
    const int result = archive_read_next_header(get(), entry);
    rethrow();
    return result;
  }
  std::vector<std::byte> content(std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::size_t done = 0;
    while (done < size) {
      const la_ssize_t n = archive_read_data(get(), bytes.data() + done, size - done);
      rethrow();
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
    bytes.resize(done);
    return bytes;
  }
  std::string why() {
    const char* text = archive_error_string(get());
    return text ? text : "unknown";
  }

 private:
  void rethrow() {
    if (error_) std::rethrow_exception(std::exchange(error_, {}));
  }
  static la_ssize_t read(archive* which, void* self, const void** bytes) {
    auto& reader = *static_cast<TarReader*>(self);
    try {
      const std::uint64_t left = reader.end_ - std::min(reader.at_, reader.end_);
      reader.piece_ = reader.storage_.read_range(reader.path_, std::min(reader.at_, reader.end_),
                                                 std::min<std::uint64_t>(kBlock, left));
      reader.at_ += reader.piece_.size();
      *bytes = reader.piece_.data();
      return static_cast<la_ssize_t>(reader.piece_.size());
    } catch (...) {
      reader.error_ = std::current_exception();
      archive_set_error(which, EIO, "cannot be read");
      return ARCHIVE_FATAL;
    }
  }
  static la_int64_t skip(archive*, void* self, la_int64_t bytes) {
    auto& reader = *static_cast<TarReader*>(self);
    const std::uint64_t left = reader.end_ - std::min(reader.at_, reader.end_);
    const auto skipped = std::min<std::uint64_t>(static_cast<std::uint64_t>(bytes), left);
    reader.at_ += skipped;
    return static_cast<la_int64_t>(skipped);
  }

  const Storage& storage_;
  const std::string& path_;
  std::uint64_t at_, end_;
  std::vector<std::byte> piece_;
  std::exception_ptr error_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  bool opened_ = false;
};

/// Of an archive whose names are said to be UTF-8 in it, whatever the process's locale is; or as it has them.
const char* name_of(archive_entry* entry) {
  const char* name = archive_entry_pathname_utf8(entry);
  return name ? name : archive_entry_pathname(entry);
}

}  // namespace

std::vector<TarEntry> list_tar(const Storage& storage, const std::string& path, FaultLog& faults) {
  const std::uint64_t size = storage.size(path);
  TarReader reader(storage, path, 0, size);
  std::vector<TarEntry> entries;
  archive_entry* entry = nullptr;
  int result = reader.opened() ? reader.next(&entry) : ARCHIVE_FATAL;
  if (result != ARCHIVE_OK && result != ARCHIVE_WARN && result != ARCHIVE_EOF)
    fail_contents(
        path, fmt::format("is no tar archive: {}; a compressed one must be unpacked first", reader.why()));
  bool is_file = false;
  for (; result == ARCHIVE_OK || result == ARCHIVE_WARN; result = reader.next(&entry)) {
    const auto here = static_cast<std::uint64_t>(archive_read_header_position(reader.get()));
    if (is_file) entries.back().end = here;
    is_file = archive_entry_filetype(entry) == AE_IFREG;
    if (!is_file) continue;
    const char* name = name_of(entry);
    const auto bytes = static_cast<std::uint64_t>(std::max<la_int64_t>(0, archive_entry_size(entry)));
    if (bytes > size - std::min(size, here)) {
      faults.found(fmt::format("{}: {}", path, name ? name : "?"), "is cut short: the archive ends in it");
      is_file = false;
      break;
    }
    entries.push_back({name ? name : "", here, size});
  }
  if (result != ARCHIVE_EOF && result != ARCHIVE_OK && result != ARCHIVE_WARN)
    faults.found(fmt::format("{}: after {} files", path, entries.size()),
                 fmt::format("is damaged or cut short: {}", reader.why()));
  return entries;
}

std::vector<std::byte> read_tar(const Storage& storage, const std::string& path, const TarEntry& entry,
                                std::size_t most) {
  TarReader reader(storage, path, entry.begin, entry.end);
  archive_entry* found = nullptr;
  const int result = reader.opened() ? reader.next(&found) : ARCHIVE_FATAL;
  if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
    fail_contents(path, fmt::format("{} cannot be found in it any more: {}", entry.name, reader.why()));
  const auto size = static_cast<std::size_t>(archive_entry_size(found));
  std::vector<std::byte> bytes = reader.content(std::min(size, most));
  if (bytes.size() < std::min(size, most)) fail_contents(path, fmt::format("{} is cut short", entry.name));
  return bytes;
}

}  // namespace taxon::data
