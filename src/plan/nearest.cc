#include "plan/nearest.h"

#include <algorithm>
#include <vector>

namespace taxon::plan {
namespace {

int allowed_distance(std::string_view word) { return std::max(1, static_cast<int>(word.size()) / 3); }

std::string_view leaf(std::string_view key) {
  auto dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  std::optional<std::string> best;
  int least = allowed_distance(word) + 1;
  for (const std::string& candidate : candidates)
    if (int distance = edit_distance(word, candidate); distance < least) least = distance, best = candidate;
  return best;
}

std::optional<std::string> nearest_key(std::string_view key, std::span<const std::string> candidates) {
  std::optional<std::string> best;
  // Half steps, so that a misspelt section costs less than a missing one.
  int least = 2 * allowed_distance(leaf(key)) + 2;
  for (const std::string& candidate : candidates) {
    int whole = 2 * edit_distance(key, candidate);
    int moved = 2 * edit_distance(leaf(key), leaf(candidate)) + 1;
    if (int distance = std::min(whole, moved); distance < least) least = distance, best = candidate;
  }
  return best;
}

std::string suggestion(const std::optional<std::string>& nearest) {
  return nearest ? "; did you mean " + *nearest + "?" : "";
}

}  // namespace taxon::plan
