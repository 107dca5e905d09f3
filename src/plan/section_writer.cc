#include "plan/section_writer.h"

#include "plan/section_reader.h"

namespace taxon::plan {

std::optional<YAML::Node> SectionWriter::plain_list(const std::string& text) {
  if (!text.starts_with('[')) return {};
  try {
    YAML::Node list = YAML::Load(text);
    if (option_text(list) == text) return list;
  } catch (const YAML::Exception&) {
  }
  return {};
}

}  // namespace taxon::plan
