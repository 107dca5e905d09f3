#include "exchange/script.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace taxon::exchange {
namespace {

constexpr const char* kBeyond = "it goes on beyond the order's end";

}  // namespace

Script::Script(std::string subject, const Acts& acts, Act::Role role, std::int32_t unit)
    : subject_(std::move(subject)) {
  std::copy_if(acts.begin(), acts.end(), std::back_inserter(acts_), [&](const Act& act) {
    return Act::role_of(act.kind) == role && act.unit == unit && !Act::is_consequence(act.kind);
  });
}

std::string Script::where() const { return fmt::format("{} of {}", next_, acts_.size()); }

void Script::depart(const std::string& what) const {
  throw Error(
      ErrorKind::Mismatch,
      fmt::format("the run can't go on in the order that it follows: {}, after {} acts: {}. The order "
                  "is of other data or of another version, or it was changed: record it anew",
                  subject_, where(), what));
}

void Turns::open(std::string subject, const Chronicle& chronicle, Act::Role role, std::int32_t unit) {
  chronicle_ = chronicle;
  if (chronicle.follow) script_.emplace(std::move(subject), *chronicle.follow, role, unit);
}

task::Task<void> Turns::take(Act act) {
  if (script_) {
    if (script_->ended()) script_->depart(kBeyond);
    if (taken_ || script_->next() != act) {
      auto place = waiting_.emplace(waiting_.end(), act, *this);
      std::exception_ptr error;
      try {
        auto turn = place->turn.wait(kFollowed, script_->subject() + ", act " + script_->where());
        co_await turn;
      } catch (...) {
        error = std::current_exception();
      }
      waiting_.erase(place);
      if (error) std::rethrow_exception(error);
    }
    taken_ = true;
    script_->pass();
  }
  chronicle_.note(act);
}

bool Turns::also(const Act& act, bool happens) {
  if (script_) {
    happens = !script_->ended() && script_->next() == act;
    if (happens) script_->pass();
  }
  if (happens) chronicle_.note(act);
  return happens;
}

void Turns::over() {
  if (!script_) return;
  taken_ = false;
  if (waiting_.empty()) return;
  if (script_->ended()) script_->depart(kBeyond);
  auto next = std::find_if(waiting_.begin(), waiting_.end(),
                           [&](const Waiting& waiting) { return waiting.act == script_->next(); });
  if (next == waiting_.end()) return;
  taken_ = true;     // nobody comes in between
  next->turn.set();  // who waited may be gone afterwards
}

}  // namespace taxon::exchange
