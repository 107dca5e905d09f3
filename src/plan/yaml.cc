#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "plan/reader.h"
#include "plan/text.h"

namespace taxon::plan {
namespace {

class Writer {
 public:
  template <class T>
  void section(const T& value) {
    out_ << YAML::BeginMap;
    visit_fields(value, [&](const Field& field, const auto& member) {
      out_ << YAML::Key << std::string(field.key) << YAML::Value;
      write(field, member);
    });
    out_ << YAML::EndMap;
  }
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

[[noreturn]] void unreadable(const std::string& path, int error) {
  throw Error(ErrorKind::Usage, fmt::format("{}: cannot be read: {}", path, std::strerror(error)));
}

}  // namespace

Plan parse_plan(const std::string& yaml, const std::string& origin,
                const std::vector<std::string>& overrides) {
  Plan plan;
  Reader file(plan), command_line(plan);
  std::vector<std::string> problems;
  try {
    auto documents = YAML::LoadAll(yaml);
    if (documents.size() > 1)
      problems.push_back(
          fmt::format("{}: holds {} YAML documents; a recipe is one", origin, documents.size()));
    if (!documents.empty()) file.document(documents.front(), origin);
  } catch (const YAML::Exception& error) {
    problems.push_back(fmt::format("{}:{}: is no YAML: {}", origin, error.mark.line + 1, error.msg));
  }
  for (const std::string& assignment : overrides) command_line.override_key(assignment);
  for (const Reader* reader : {&file, &command_line})
    problems.insert(problems.end(), reader->problems().begin(), reader->problems().end());
  if (!problems.empty()) throw Error(ErrorKind::Usage, fmt::format("{}", fmt::join(problems, "\n")));
  return plan;
}

Plan read_plan(const std::string& path, const std::vector<std::string>& overrides) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) unreadable(path, errno);
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad() || (text.fail() && errno != 0)) unreadable(path, errno);  // a folder opens but can't be read
  return parse_plan(text.str(), path, overrides);
}

std::string write_plan(const Plan& plan) {
  Writer writer;
  writer.section(plan);
  return writer.text();
}

}  // namespace taxon::plan
