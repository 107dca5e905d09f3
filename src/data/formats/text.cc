#include <fmt/format.h>

#include "base/error.h"
#include "data/halves.h"
#include "data/token_windows.h"
#include "data/utf8_check.h"

namespace taxon::data {

enum class Encoding : std::uint8_t { Utf8, Bytes };

}  // namespace taxon::data

namespace taxon::plan {

template <>
struct Words<data::Encoding> {
  static constexpr std::string_view all[] = {"utf8", "bytes"};
};

}  // namespace taxon::plan

namespace taxon::data {
namespace {

constexpr int kBytes = 256;

struct TextOptions {
  std::int64_t context = 256;
  Encoding encoding = Encoding::Utf8;
};
template <plan::Like<TextOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "context",
                    .sentence = "Tokens of a sample; the targets are those that follow each of them.",
                    .min = 1,
                    .max = 1 << 20},
        o.context);
  visit(plan::Field{.key = "encoding",
                    .sentence = "utf8: what is not is faulty, and so are zero bytes; bytes: anything goes."},
        o.encoding);
}

std::unique_ptr<Dataset> open_file(const OpenContext& context, const TextOptions& options,
                                   const std::string& path) {
  TokenWindows::File file{.path = path,
                          .tokens = static_cast<std::int64_t>(context.storage.size(path)),
                          .context = options.context};
  const std::int64_t windows = count_windows(file.tokens, options.context);
  if (windows == 0)
    throw Error(ErrorKind::Data,
                fmt::format("{}: has {} bytes, and a window of {} and the byte after it is "
                            "wanted; make data.context smaller",
                            path, file.tokens, options.context),
                {{}, "read", path});
  auto refuse = [&](const Utf8Check::Fault& fault) {
    if (refuse_windows(file.refused, windows, options.context, static_cast<std::int64_t>(fault.byte)))
      context.faults->found(fmt::format("{}: line {}, byte {}", path, fault.line, fault.byte),
                            std::string(fault.why));
  };
  Utf8Check check;
  if (options.encoding == Encoding::Utf8)
    scan_file(context.storage, path, [&](std::uint64_t, std::span<const std::byte> piece) {
      for (const Utf8Check::Fault& fault : check.take(piece)) refuse(fault);
    });
  if (const auto fault = check.end()) refuse(*fault);
  return std::make_unique<TokenWindows>(context.storage, std::move(file), kBytes, /*bytes=*/true);
}

Datasets open(const OpenContext& context) {
  constexpr std::string_view kEndings[] = {".txt"};
  const auto options = context.plan.options.read<TextOptions>();
  return open_files(context, kEndings,
                    [&](const std::string& path) { return open_file(context, options, path); });
}

}  // namespace

DatasetRow text() {
  return {.name = "text",
          .sentence =
              "Plain text for language models, byte by byte: windows of `context` bytes, and as targets "
              "the byte after each; `path` is the file, or a folder with train.txt and test.txt (or "
              "val.txt).",
          .open = open,
          .options = plan::option_keys<TextOptions>,
          .gives_tokens = true};
}

}  // namespace taxon::data
