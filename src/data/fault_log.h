#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "plan/plan.h"

namespace taxon::data {

/// Samples that cannot be used: counted, named, and what the plan makes of them. Any thread.
class FaultLog {
 public:
  explicit FaultLog(plan::OnFaulty what) : what_(what) {}

  /// `where`: the file, and the row, byte or entry in it. Stop: throws Error{Data} "where: why". Skip: counts
  /// each `where` once.
  void found(const std::string& where, const std::string& why);
  bool skips() const { return what_ == plan::OnFaulty::Skip; }
  std::int64_t count() const;
  /// What was found since the last call, as a sentence that names the first few; none: nothing was, or not
  /// yet as many again as had been told of.
  std::optional<std::string> news();
  /// The same of all that was found since.
  std::optional<std::string> rest();

 private:
  std::optional<std::string> tell(std::int64_t at_least);

  const plan::OnFaulty what_;
  mutable std::mutex mutex_;
  std::set<std::string> places_;  // protected by mutex_, as are
  std::string named_;             // these: since the last call of news()
  std::int64_t told_ = 0;
};

}  // namespace taxon::data
