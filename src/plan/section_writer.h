#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>
#include <vector>

#include "plan/fields.h"
#include "plan/text.h"

namespace taxon::plan {

/// A section of keys as YAML, in the order of its fields.
class SectionWriter {
 public:
  template <class T>
  void section(const T& value) {
    out_ << YAML::BeginMap;
    visit_fields(value, [&](const Field& field, const auto& member) {
      out_ << YAML::Key << std::string(field.key) << YAML::Value;
      write(field, member);
    });
    if constexpr (HasOptions<std::remove_const_t<T>>)
      for (const auto& [key, text] : value.options.given()) {
        out_ << YAML::Key << key << YAML::Value;
        if (const auto list = plain_list(text))
          out_ << *list;
        else
          out_ << text;
      }
    out_ << YAML::EndMap;
  }
  /// A list of values that reads back as this text; none for any other text.
  static std::optional<YAML::Node> plain_list(const std::string& text);
  std::string text() const { return std::string(out_.c_str()) + "\n"; }

 private:
  template <class T>
  void write(const Field& field, const T& value) {
    if constexpr (Section<T>)
      section(value);
    else
      out_ << to_text(field, value);
  }
  template <class T>
  void write(const Field& field, const std::vector<T>& list) {
    if (list.empty() || !Section<T>) out_ << YAML::Flow;
    out_ << YAML::BeginSeq;
    for (const T& element : list) write(field, element);
    out_ << YAML::EndSeq;
  }

  YAML::Emitter out_;
};

}  // namespace taxon::plan
