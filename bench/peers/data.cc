#include "peers/data.h"

#include <zlib.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <vector>

namespace taxon::bench {
namespace {

std::vector<unsigned char> read_idx(const std::string& path, std::size_t header) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw std::runtime_error("cannot open " + path + ": apt-get install dataset-fashion-mnist");
  std::vector<unsigned char> bytes, chunk(1 << 20);
  for (int n = 0; (n = gzread(file.get(), chunk.data(), static_cast<unsigned>(chunk.size()))) > 0;) {
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + n);
  }
  if (bytes.size() <= header) throw std::runtime_error(path + " is cut short");
  return {bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end()};
}

}  // namespace

Dataset load_fashion_mnist(const std::string& folder, const std::string& part) {
  constexpr double kMean = 0.2860, kDeviation = 0.3530;
  auto pixels = read_idx(folder + "/" + part + "-images-idx3-ubyte.gz", 16);
  auto classes = read_idx(folder + "/" + part + "-labels-idx1-ubyte.gz", 8);
  const auto count = static_cast<std::int64_t>(classes.size());
  const auto images = torch::from_blob(pixels.data(), {count, 1, 28, 28}, torch::kUInt8).to(torch::kFloat32);
  return {.samples = images.div(255).sub(kMean).div(kDeviation),
          .labels = torch::from_blob(classes.data(), {count}, torch::kUInt8).to(torch::kInt64)};
}

Dataset load_text(const std::string& path, std::int64_t context) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path + ": tools/export_bible.py writes it");
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::int64_t windows = (static_cast<std::int64_t>(bytes.size()) - 1) / context;
  const auto tokens =
      torch::from_blob(bytes.data(), {windows * context + 1}, torch::kUInt8).to(torch::kInt64);
  const auto from = [&](std::int64_t first) {
    return tokens.slice(0, first, first + windows * context).view({windows, context}).contiguous();
  };
  return {.samples = from(0), .labels = from(1)};
}

}  // namespace taxon::bench
