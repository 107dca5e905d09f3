#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/memory_storage.h"

namespace taxon::test {

using Bytes = std::vector<std::byte>;

inline ConstView view(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }

inline Bytes idx(const std::vector<std::uint32_t>& extents, std::size_t elements, int modulus) {
  Bytes bytes = {std::byte{0}, std::byte{0}, std::byte{8}, static_cast<std::byte>(extents.size())};
  for (std::uint32_t extent : extents)
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::byte>(extent >> shift));
  for (std::size_t i = 0; i < elements; ++i)
    bytes.push_back(static_cast<std::byte>(i % static_cast<std::size_t>(modulus)));
  return bytes;
}

inline Bytes images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns) {
  return idx({count, rows, columns}, count * rows * columns, 256);
}
inline Bytes labels(std::uint32_t count) { return idx({count}, count, 10); }

inline Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, bytes.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// A well-formed data set of 20 training and 12 test samples of 4x6 pixels in "/d"; the training half is
/// gzipped.
inline void put_dataset(data::Storage& storage) {
  storage.write_atomic("/d/train-images-idx3-ubyte.gz", view(gzip(images(20, 4, 6))));
  storage.write_atomic("/d/train-labels-idx1-ubyte.gz", view(gzip(labels(20))));
  storage.write_atomic("/d/t10k-images-idx3-ubyte", view(images(12, 4, 6)));
  storage.write_atomic("/d/t10k-labels-idx1-ubyte", view(labels(12)));
}

}  // namespace taxon::test
