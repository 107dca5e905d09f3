#pragma once

#include <fmt/format.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plan/field.h"
#include "plan/text.h"

namespace taxon::plan {

/// What a recipe says of a row of a table (of a codec, say) in keys that are that row's own, as text. Which
/// keys there are, their bounds and defaults stand with the row: in a struct of its own and the
/// visit_fields() beside it, see plan/field.h.
class Options {
 public:
  /// A value as recipes write it.
  struct Text {
    Text(const char* word) : text(word) {}
    Text(std::string word) : text(std::move(word)) {}
    Text(bool value) : text(value ? "true" : "false") {}
    Text(double value) : text(fmt::format("{}", value)) {}
    template <std::integral T>
    Text(T value) : text(fmt::format("{}", value)) {}
    std::string text;
  };
  using Given = std::map<std::string, std::string, std::less<>>;

  Options() = default;
  Options(std::initializer_list<std::pair<const char*, Text>> given) {
    for (const auto& [key, value] : given) set(key, value);
  }
  void set(std::string_view key, Text value) {
    given_.insert_or_assign(std::string(key), std::move(value.text));
  }
  void erase(std::string_view key) {
    if (const auto found = given_.find(key); found != given_.end()) given_.erase(found);
  }
  const Given& given() const { return given_; }

  /// The row's struct: its defaults, and what is given instead. Keys that it lacks are another row's. Throws
  /// Error{Usage} for a value that its key does not allow.
  template <class T>
  T read() const {
    T values;
    visit_fields(values, [this](const Field& field, auto& member) {
      const auto found = given_.find(field.key);
      if (found != given_.end() && !parse_text(field, found->second, member))
        throw Error(ErrorKind::Usage, fmt::format("{} must be {}, but is \"{}\"", field.key,
                                                  allowed(field, member), found->second));
    });
    return values;
  }

  friend bool operator==(const Options&, const Options&) = default;

 private:
  Given given_;
};

/// A section in which rows have keys of their own beside the section's.
template <class T>
concept HasOptions = requires(T& section) {
  { section.options } -> std::same_as<Options&>;
};

/// What is known of a key that is a row's own, without the row's struct.
struct OptionKey {
  std::string key, sentence, standard, allowed;
  /// The value as write_plan() has it; none for what the key does not allow.
  std::function<std::optional<std::string>(std::string_view text)> canonical;
};

/// The keys of a row whose struct is T, in its order.
template <class T>
std::vector<OptionKey> option_keys() {
  std::vector<OptionKey> keys;
  T values;
  visit_fields(values, [&keys](const Field& field, auto& member) {
    using M = std::remove_cvref_t<decltype(member)>;
    keys.push_back({std::string(field.key), std::string(field.sentence), to_text(field, member),
                    allowed(field, member), [field](std::string_view text) -> std::optional<std::string> {
                      M value{};
                      if (!parse_text(field, text, value)) return {};
                      return to_text(field, value);
                    }});
  });
  return keys;
}

}  // namespace taxon::plan
