#include "control/session.h"

#include "control/core.h"

namespace taxon::control {

Session::Session(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Session::~Session() = default;

std::unique_ptr<Session> Session::join(JoinOptions options) {
  auto core = std::make_unique<Core>(std::move(options));
  core->join();
  return std::unique_ptr<Session>(new Session(std::move(core)));
}

Rank Session::rank() const { return core_->options().rank; }
int Session::world_size() const { return core_->options().world_size; }
const std::vector<Member>& Session::members() const { return core_->membership().members; }
std::uint64_t Session::epoch() const { return core_->membership().epoch; }

std::chrono::nanoseconds Session::clock_offset() const {
  return std::chrono::nanoseconds(core_->clock_offset());
}

void Session::on_event(std::function<void(const Event&)> handler) { core_->on_event(std::move(handler)); }
std::optional<Event> Session::failure() const { return core_->failure(); }

std::vector<std::vector<std::byte>> Session::exchange(const std::string& what,
                                                      std::span<const std::byte> bytes) {
  return core_->exchange(what, bytes);
}

void Session::report_waits(const std::vector<task::WaitInfo>& waits, Instant now) {
  core_->report_waits(reported(waits, now));
}

void Session::set_expendable(std::vector<Rank> ranks) { core_->set_expendable(std::move(ranks)); }

void Session::request_stop() { core_->request_stop(); }
void Session::abort(ErrorKind kind, const std::string& message) { core_->abort(kind, message); }
void Session::leave() { core_->leave(); }

}  // namespace taxon::control
