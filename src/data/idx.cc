#include "data/idx.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/gzip.h"
#include "data/storage_errors.h"

namespace taxon::data {
namespace {

constexpr int kUnsignedByte = 0x08;

}  // namespace

IdxFile parse_idx(std::vector<std::byte> bytes, int dimensions, const std::string& path) {
  IdxFile file{{}, std::move(bytes), 0};
  ConstView raw(file.bytes.data(), file.bytes.size());
  if (is_gzip(raw)) file.bytes = gunzip(raw, path);
  auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(file.bytes[i]); };
  if (file.bytes.size() < 4)
    fail_contents(path, fmt::format("is no IDX file: it has {} byte(s) and no header", file.bytes.size()));
  if (byte(0) != 0 || byte(1) != 0)
    fail_contents(path, "is no IDX file: it does not begin with two zero bytes");
  if (byte(2) != kUnsignedByte)
    fail_contents(
        path, fmt::format("holds elements of IDX type 0x{:02x}; unsigned bytes (0x08) are wanted", byte(2)));
  if (byte(3) != static_cast<std::uint32_t>(dimensions))
    fail_contents(path,
                  fmt::format("has {} dimension(s), and {} are wanted: is it another one of the four files?",
                              byte(3), dimensions));
  file.header = 4 + 4 * static_cast<std::size_t>(dimensions);
  if (file.bytes.size() < file.header) fail_contents(path, "is cut short within its header");
  std::uint64_t wanted = 1;
  for (std::size_t at = 4; at < file.header; at += 4) {
    std::uint64_t extent = byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    if (extent == 0) fail_contents(path, "holds nothing: one of its dimensions is 0");
    file.extents.push_back(static_cast<std::int64_t>(extent));
    if (__builtin_mul_overflow(wanted, extent, &wanted)) fail_contents(path, "claims an impossible size");
  }
  std::uint64_t held = file.bytes.size() - file.header;
  if (held != wanted)
    fail_contents(path, fmt::format("{}: its header promises {} bytes of elements, it has {}",
                                    held < wanted ? "is cut short" : "is too long", wanted, held));
  return file;
}

}  // namespace taxon::data
