#include "data/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace taxon::data {
namespace {

[[noreturn]] void damaged(const std::string& path, const char* why) {
  throw Error(ErrorKind::Data, fmt::format("{}: {}", path, why), {{}, "gunzip", path});
}

class Inflater {
 public:
  Inflater() {
    constexpr int kGzipOnly = 15 + 16;
    TAXON_CHECK(inflateInit2(&stream_, kGzipOnly) == Z_OK);
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  z_stream& operator*() { return stream_; }

 private:
  z_stream stream_{};
};

uInt chunk(std::size_t size) {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

}  // namespace

bool is_gzip(ConstView bytes) {
  return bytes.size() >= 2 && bytes.data()[0] == std::byte{0x1f} && bytes.data()[1] == std::byte{0x8b};
}

std::vector<std::byte> gunzip(ConstView bytes, const std::string& path) {
  Inflater inflater;
  z_stream& stream = *inflater;
  std::vector<std::byte> out(bytes.size() * 4 + 64);
  std::size_t in_done = 0, out_done = 0;
  for (;;) {
    if (out_done == out.size()) out.resize(out.size() * 2);
    uInt in_chunk = chunk(bytes.size() - in_done), out_chunk = chunk(out.size() - out_done);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + in_done));
    stream.avail_in = in_chunk;
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + out_done);
    stream.avail_out = out_chunk;
    int result = inflate(&stream, Z_NO_FLUSH);
    in_done += in_chunk - stream.avail_in;
    out_done += out_chunk - stream.avail_out;
    if (result == Z_STREAM_END) {
      if (in_done == bytes.size()) break;
      inflateReset(&stream);  // a file may hold several members, one after the other
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      damaged(path, "is damaged: its gzip data do not fit their checksum or format; get the file again");
    } else if (in_done == bytes.size() && stream.avail_out > 0) {
      damaged(path, "is cut short: its gzip data end early; get the file again");
    }
  }
  out.resize(out_done);
  return out;
}

}  // namespace taxon::data
