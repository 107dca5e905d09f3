#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "data/halves.h"
#include "data/token_windows.h"

namespace taxon::data {
namespace {

struct TokenOptions {
  std::int64_t context = 256;
  int token_bytes = 2;
  int vocabulary = 0;
};
template <plan::Like<TokenOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "context",
                    .sentence = "Tokens of a sample; the targets are those that follow each of them.",
                    .min = 1,
                    .max = 1 << 20},
        o.context);
  visit(plan::Field{.key = "token_bytes",
                    .sentence = "Of a token in the file: 2 (uint16) or 4 (uint32), little-endian.",
                    .choices = "2 4"},
        o.token_bytes);
  visit(plan::Field{.key = "vocabulary",
                    .sentence = "Tokens are 0 to this less one; 0: to the largest of the training set.",
                    .min = 0,
                    .max = 1 << 30},
        o.vocabulary);
}

class Opener {
 public:
  explicit Opener(const OpenContext& context)
      : context_(context),
        options_(context.plan.options.read<TokenOptions>()),
        vocabulary_(options_.vocabulary) {}

  std::unique_ptr<Dataset> open(const std::string& path) {
    const auto width = static_cast<std::uint64_t>(options_.token_bytes);
    const std::uint64_t size = context_.storage.size(path);
    if (size % width != 0)
      context_.faults->found(
          fmt::format("{}: byte {}", path, size - size % width),
          fmt::format("the last token is cut short: the file has {} bytes, and a token {}", size, width));
    TokenWindows::File file{.path = path,
                            .width = width,
                            .tokens = static_cast<std::int64_t>(size / width),
                            .context = options_.context};
    const std::int64_t windows = count_windows(file.tokens, options_.context);
    if (windows == 0)
      throw Error(ErrorKind::Data,
                  fmt::format("{}: has {} tokens, and a window of {} and the token after it is wanted; make "
                              "data.context smaller",
                              path, file.tokens, options_.context),
                  {{}, "read", path});
    if (vocabulary_ == 0) vocabulary_ = largest(path) + 1;
    each(path, [&](std::int64_t position, std::uint32_t token) {
      if (token < static_cast<std::uint32_t>(vocabulary_)) return;
      if (refuse_windows(file.refused, windows, options_.context, position))
        context_.faults->found(fmt::format("{}: token {}", path, position),
                               fmt::format("is {}, and the vocabulary ends at {}", token, vocabulary_ - 1));
    });
    return std::make_unique<TokenWindows>(context_.storage, std::move(file), vocabulary_);
  }

 private:
  template <class Body>
  void each(const std::string& path, Body&& body) const {
    const auto width = static_cast<std::size_t>(options_.token_bytes);
    scan_file(context_.storage, path, [&](std::uint64_t at, std::span<const std::byte> piece) {
      for (std::size_t k = 0; k + width <= piece.size(); k += width) {
        std::uint32_t token = 0;
        for (std::size_t b = width; b-- > 0;)
          token = token << 8 | std::to_integer<std::uint32_t>(piece[k + b]);
        body(static_cast<std::int64_t>((at + k) / width), token);
      }
    });
  }
  int largest(const std::string& path) const {
    std::uint32_t most = 0;
    each(path, [&](std::int64_t, std::uint32_t token) { most = std::max(most, token); });
    if (most >= 1U << 30)
      throw Error(ErrorKind::Data,
                  fmt::format("{}: has a token of {}; is data.token_bytes: {} right?", path, most,
                              options_.token_bytes),
                  {{}, "read", path});
    return static_cast<int>(most);
  }

  const OpenContext& context_;
  const TokenOptions options_;
  int vocabulary_;
};

Datasets open(const OpenContext& context) {
  constexpr std::string_view kEndings[] = {".bin"};
  Opener opener(context);
  return open_files(context, kEndings, [&](const std::string& path) { return opener.open(path); });
}

}  // namespace

DatasetRow tokens() {
  return {.name = "tokens",
          .sentence =
              "Numbers of tokens for language models, as a tokenizer wrote them: windows of `context`, "
              "and as targets the token after each; `path` is the file, or a folder with train.bin and "
              "test.bin (or val.bin).",
          .open = open,
          .options = plan::option_keys<TokenOptions>,
          .gives_tokens = true};
}

}  // namespace taxon::data
