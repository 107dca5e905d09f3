#include "control/client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <span>

#include "base/units.h"

namespace taxon::control {
namespace {

constexpr Rank kHubRank(0);
// Enough messages there and back that one of them is not delayed.
constexpr std::size_t kClockRounds = 8;
constexpr std::chrono::milliseconds kGiveUpCheck(200);
// Waits that are younger are the normal course of a step.
constexpr double kWorthReporting = 2;

Message plain(const char* type) { return {{{"type", type}}, {}}; }

Message abort_message(ErrorKind kind, const std::string& message) {
  return {{{"type", "abort"}, {"kind", to_string(kind)}, {"message", clipped(message)}}, {}};
}

}  // namespace

constinit const Client::Row Client::kRows[] = {
    {"refused", &Client::on_refused},   {"waiting", &Client::on_waiting}, {"welcome", &Client::on_welcome},
    {"ping", &Client::on_ping},         {"event", &Client::on_event},     {"result", &Client::on_result},
    {"farewell", &Client::on_farewell},
};

Client::Client(const JoinOptions& options, Poller& poller, Host& host)
    : options_(options),
      poller_(poller),
      host_(host),
      connector_(options, poller, *this),
      hub_liveness_(options.timeouts),
      started_(Clock::now()),
      last_said_(started_),
      last_report_(started_ - options.timeouts.heartbeat),
      wake_at_(started_) {}

void Client::dial() { connector_.retry(started_, ""); }

void Client::join_own(Fd own) {
  connection_ = std::make_unique<Connection>(poller_, std::move(own), *this);
  hub_address_ = options_.address;
  say_hello();
}

void Client::connected(std::unique_ptr<Connection> connection, const Endpoint& hub) {
  connection_ = std::move(connection);
  connection_->set_owner(*this);
  hub_address_ = hub.host();
  say_hello();
}

void Client::say_hello() {
  stage_ = Stage::Waiting;
  connection_->send(Message{{{"type", "hello"},
                             {"rank", options_.rank.value()},
                             {"world", options_.world_size},
                             {"version", options_.version},
                             {"plan", options_.plan_hash},
                             {"host", options_.host_id},
                             {"pid", getpid()}},
                            options_.blob});
}

void Client::denied(const Error& error) { fail_join(error); }

void Client::fail_join(const Error& error) {
  // Rank 0 tells the others, who need not wait for this one.
  if (stage_ == Stage::Waiting && connection_) connection_->send(abort_message(error.kind(), error.what()));
  stage_ = Stage::Gone;
  host_.join_failed(error);
}

void Client::received(Connection& connection) {
  try {
    while (auto message = connection.next()) {
      dispatch(*message);
      if (connection_.get() != &connection) return;
    }
  } catch (const std::exception& error) {
    closed(connection, fmt::format("it sent what this version does not understand: {}", error.what()));
  }
}

void Client::dispatch(Message& message) {
  if (auto returned = hub_liveness_.heard(kHubRank, Clock::now())) happened(*returned);
  const auto type = text_at(message.head, "type", kMaxName);
  for (const Row& row : kRows)
    if (type == row.type) return (this->*row.handler)(message);
  throw ProtocolError("a message of type '" + type + "'");
}

void Client::closed(Connection&, const std::string& reason) {
  connection_.reset();
  hub_liveness_.remove(kHubRank);
  if (stage_ == Stage::Waiting)
    return fail_join(Error(ErrorKind::PeerLost,
                           fmt::format("rank 0 was lost before all {} ranks were there: {} (at {})",
                                       options_.world_size, reason, hub_address_),
                           {.rank = kHubRank}));
  if (stage_ == Stage::Ending) {
    stage_ = Stage::Gone;
    return host_.ended();
  }
  happened(PeerLost{kHubRank, fmt::format("{} (at {})", reason, hub_address_)});
}

void Client::on_refused(Message& message) {
  if (stage_ != Stage::Waiting) throw ProtocolError("a refusal of a rank that has joined");
  ErrorContext context{.operation = "rendezvous"};
  if (message.head.contains("rank")) context.rank = rank_at(message.head, "rank", options_.world_size);
  const std::string why = text_at(message.head, "message", kMaxText);
  if (why.empty()) throw ProtocolError("a refusal without a reason");
  const Error error(kind_from_text(text_at(message.head, "kind", kMaxName)), why, context);
  connection_.reset();
  fail_join(error);
}

void Client::on_waiting(Message& message) {
  missing_.clear();
  for (Rank rank : ranks_at(message.head, "missing", options_.world_size)) missing_.push_back(rank.value());
}

void Client::on_welcome(Message& message) {
  const auto world = static_cast<std::size_t>(options_.world_size);
  const auto& rows = list_at(message.head, "members", world);
  auto blobs = unpack(sizes_at(message.head, "sizes", world), message.body);
  const auto& epoch = message.head.at("epoch");
  if (stage_ != Stage::Waiting || rows.size() != world || !epoch.is_number_unsigned())
    throw ProtocolError("a welcome that does not fit");
  Membership membership;
  membership.epoch = epoch.get<std::uint64_t>();
  for (std::size_t r = 0; r < rows.size(); ++r)
    membership.members.push_back({Rank(static_cast<std::int32_t>(r)), text_at(rows[r], "host", kMaxName),
                                  integer_at(rows[r], "pid", 0, std::numeric_limits<std::int32_t>::max()),
                                  text_at(rows[r], "address", kMaxName), std::move(blobs[r])});
  membership.members[0].address = hub_address_;
  membership_ = std::move(membership);
  stage_ = Stage::Measuring;
  if (!is_hub_rank()) hub_liveness_.add(kHubRank, Clock::now());
}

void Client::on_ping(Message& message) {
  std::int64_t now = nanoseconds(Clock::now());
  if (stage_ == Stage::Waiting) throw ProtocolError("a ping before the job has started");
  ClockEstimate::Sample sample{nanoseconds_at(message.head, "echo"), nanoseconds_at(message.head, "seen"),
                               nanoseconds_at(message.head, "now"), now};
  if (sample.sent_here != 0) clock_.add(sample);
  bool again = clock_.samples() < kClockRounds;
  connection_->send(Message{{{"type", "pong"}, {"now", nanoseconds(Clock::now())}, {"again", again}}, {}});
  if (again) return;
  host_.clock_measured(is_hub_rank() ? 0 : clock_.offset());
  if (stage_ != Stage::Measuring) return;
  stage_ = Stage::Joined;
  host_.joined(std::move(membership_));
}

void Client::on_event(Message& message) {
  happened(event_from_json(message.head.at("event"), options_.world_size));
}

void Client::happened(const Event& event) {
  if (stage_ == Stage::Gone) return;  // what comes after this rank's end is none of its business
  if (is_fatal(event)) {
    if (failed_) return;
    failed_ = true;
  }
  host_.happened(event);
}

void Client::on_result(Message& message) {
  if (!exchanging_) throw ProtocolError("a result of an exchange that nobody began");
  auto parts =
      unpack(sizes_at(message.head, "sizes", static_cast<std::size_t>(options_.world_size)), message.body);
  exchanging_ = false;
  host_.exchanged(std::move(parts));
}

void Client::on_farewell(Message&) {
  if (stage_ != Stage::Ending) return;
  stage_ = Stage::Gone;
  host_.ended();
}

void Client::tick(Clock::time_point now) {
  if (is_joining()) return tick_joining(now);
  wake_at_ = now + options_.timeouts.heartbeat;
  for (const Event& event : hub_liveness_.check(now)) happened(event);
}

void Client::tick_joining(Clock::time_point now) {
  if (auto why = options_.give_up ? options_.give_up() : std::nullopt)
    return fail_join(Error(why->kind(), fmt::format("{} while joining: {}", why->what(), joining_status()),
                           why->context()));
  if (now - started_ >= options_.timeouts.join && !is_hub_rank())
    return fail_join(rendezvous_error(fmt::format("{}; gave up after {}", joining_status(),
                                                  format_seconds(seconds(options_.timeouts.join)))));
  if (now - last_said_ >= options_.timeouts.progress && !is_hub_rank()) {
    last_said_ = now;
    if (options_.progress)
      options_.progress(fmt::format("{} ({} of {})", joining_status(),
                                    format_seconds(seconds(now - started_)),
                                    format_seconds(seconds(options_.timeouts.join))));
  }
  wake_at_ = now + kGiveUpCheck;
  if (stage_ != Stage::Dialing) return;
  connector_.tick(now);
  wake_at_ = std::min(wake_at_, connector_.wake_at());
}

std::string Client::joining_status() const {
  if (stage_ == Stage::Dialing) return fmt::format("rank {}: {}", options_.rank.value(), connector_.status());
  std::string whom =
      missing_.empty() ? "the other ranks"
                       : fmt::format("rank{} {}", missing_.size() == 1 ? "" : "s", fmt::join(missing_, ", "));
  return fmt::format("rank {} has reached rank 0 at {}:{} and waits for {} of {}", options_.rank.value(),
                     options_.address, options_.port, whom, options_.world_size);
}

void Client::exchange(const std::string& what, std::vector<std::byte> bytes) {
  if (!connection_) return;
  exchanging_ = true;
  connection_->send(Message{{{"type", "exchange"}, {"what", what}}, std::move(bytes)});
}

void Client::report(const std::vector<ReportedWait>& waits) {
  auto now = Clock::now();
  bool worth = std::any_of(waits.begin(), waits.end(), [&](const ReportedWait& wait) {
    return wait.seconds >= std::min(kWorthReporting, seconds(options_.timeouts.hang) / 2);
  });
  if (!connection_ || (!worth && !reported_waits_)) return;
  if (worth && now - last_report_ < options_.timeouts.heartbeat / 2) return;
  last_report_ = now;
  reported_waits_ = worth;
  nlohmann::json list = nlohmann::json::array();
  for (const ReportedWait& wait : std::span(waits).first(std::min(waits.size(), kMaxWaits))) {
    nlohmann::json row{{"operation", clipped(wait.operation, kMaxName)},
                       {"subject", clipped(wait.subject, kMaxName)},
                       {"seconds", std::max(0.0, wait.seconds)}};
    if (wait.peer) row["peer"] = wait.peer->value();
    list.push_back(std::move(row));
  }
  connection_->send(Message{{{"type", "waits"}, {"waits", list}}, {}});
}

void Client::request_stop() {
  if (connection_) connection_->send(plain("stop"));
}

void Client::abort(ErrorKind kind, const std::string& message) {
  stage_ = Stage::Ending;
  if (!connection_) return host_.ended();
  connection_->send(abort_message(kind, message));
}

void Client::say_goodbye() {
  stage_ = Stage::Ending;
  if (!connection_) return host_.ended();
  connection_->send(plain("goodbye"));
}

}  // namespace taxon::control
