#pragma once

#include <functional>
#include <string>
#include <vector>

namespace taxon {

/// Everything that is wrong with a command, whichever file or option it is in.
class Problems {
 public:
  void add(std::string problem) { list_.push_back(std::move(problem)); }
  /// Runs `read`; its mistakes (Error{Usage}) join the list, each line behind `where` if that is given.
  /// False: there were some.
  bool collect(const std::function<void()>& read, const std::string& where = "");
  bool empty() const { return list_.empty(); }
  /// Throws one Error{Usage} that lists all of them, if there are any.
  void require_none() const;

 private:
  std::vector<std::string> list_;
};

}  // namespace taxon
