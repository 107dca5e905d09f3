#include <ATen/Version.h>

#include <string_view>

#include "model/torch/builders.h"

namespace taxon::model {
namespace {

/// What follows `key` in the library's description of itself, up to one of `ends`.
std::string word_after(std::string_view text, std::string_view key, std::string_view ends) {
  const std::size_t found = text.find(key);
  if (found == std::string_view::npos) return {};
  text.remove_prefix(found + key.size());
  return std::string(text.substr(0, text.find_first_of(ends)));
}

}  // namespace

FrameworkFacts facts_of_libtorch() {
  const std::string text = at::show_config();
  return {.version = word_after(text, "TORCH_VERSION=", ", \n"),
          .onednn = word_after(text, "MKL-DNN v", " \n"),
          .instructions = word_after(text, "CPU capability usage: ", "\n")};
}

}  // namespace taxon::model
