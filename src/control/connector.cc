#include "control/connector.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include "base/failure.h"

namespace taxon::control {
namespace {

constexpr std::chrono::milliseconds kFirstPause(50);
constexpr std::chrono::milliseconds kLongestPause(2000);
// Longer than a lost SYN takes to be sent twice more, shorter than a person's patience.
constexpr auto kAttempt = std::chrono::seconds(8);
constexpr std::chrono::milliseconds kLookupCheck(5);

/// `host`, or `other` where that means nothing.
Resolution look_up_either(const std::function<Resolution(const std::string&, std::uint16_t)>& resolver,
                          const std::string& host, const std::string& other, std::uint16_t port) {
  Resolution found = resolver(host, port);
  if (!found.endpoints.empty() || other.empty()) return found;
  Resolution second = resolver(other, port);
  if (second.endpoints.empty()) second.problem = found.problem + ", and " + second.problem;
  return second;
}

}  // namespace

std::shared_ptr<Lookup> Lookup::start(const JoinOptions& options) {
  auto lookup = std::make_shared<Lookup>();
  std::function<Resolution(const std::string&, std::uint16_t)> resolver =
      options.resolve ? options.resolve
                      : [](const std::string& name, std::uint16_t at) { return resolve(name, at); };
  std::thread([lookup, resolver = std::move(resolver), host = options.address, other = options.other_address,
               port = options.port] {
    Resolution found = look_up_either(resolver, host, other, port);
    std::lock_guard lock(lookup->mutex_);
    lookup->result_ = std::move(found);
  }).detach();
  return lookup;
}

std::optional<Resolution> Lookup::result() {
  std::lock_guard lock(mutex_);
  return result_;
}

Connector::Connector(const JoinOptions& options, Poller& poller, Host& host)
    : options_(options), poller_(poller), host_(host), pause_(kFirstPause) {}

Connector::~Connector() { drop(); }

void Connector::drop() {
  if (connecting_.valid()) poller_.forget(connecting_.get());
  connecting_ = Fd();
  connection_.reset();
}

void Connector::retry(Clock::time_point now, const std::string& why) {
  drop();
  if (!why.empty()) last_problem_ = why;
  if (next_endpoint_ < endpoints_.size()) return try_next(now);
  endpoints_.clear();
  next_endpoint_ = 0;
  stage_ = Stage::Paused;
  wake_at_ = now + (why.empty() ? std::chrono::milliseconds(0) : pause_);
  pause_ = std::min(kLongestPause, pause_ * 3 / 2);
}

void Connector::tick(Clock::time_point now) {
  if (stage_ == Stage::Done || now < wake_at_) return;
  if (stage_ == Stage::Paused) return look_up(now);
  if (stage_ == Stage::Resolving) return dial(now);
  retry(now,
        stage_ == Stage::Connecting
            ? "no answer (a firewall, or the host is down)"
            : "something listens there that does not answer as Taxon does: is it another program's port?");
}

void Connector::look_up(Clock::time_point now) {
  try {
    lookup_ = Lookup::start(options_);
  } catch (const std::system_error& error) {
    stage_ = Stage::Done;
    return host_.denied(error_from(error));
  }
  stage_ = Stage::Resolving;
  wake_at_ = now + kLookupCheck;
}

void Connector::dial(Clock::time_point now) {
  auto found = lookup_->result();
  if (!found) {
    wake_at_ = now + kLookupCheck;
    return;
  }
  lookup_.reset();
  endpoints_ = std::move(found->endpoints);
  next_endpoint_ = 0;
  if (endpoints_.empty()) {
    current_ = {};
    return retry(now, found->problem + ": set MASTER_ADDR to an address of rank 0's host on every rank");
  }
  try_next(now);
}

void Connector::try_next(Clock::time_point now) {
  current_ = endpoints_[next_endpoint_++];
  if (options_.secret.empty() && !current_.is_loopback()) {
    stage_ = Stage::Done;
    return host_.denied(rendezvous_error(
        fmt::format("without a secret a job stays on one machine (127.0.0.1), but rank 0 is at {}: {}",
                    current_.text(), kHowToGetASecret)));
  }
  connecting_ = start_connect(current_);
  if (!connecting_.valid() && (errno == EMFILE || errno == ENFILE)) {
    stage_ = Stage::Done;
    return host_.denied(rendezvous_error(
        fmt::format("rank {} has no open file left to connect to rank 0: {}: raise ulimit -n",
                    options_.rank.value(), errno_text(errno)),
        ErrorKind::Resources));
  }
  if (!connecting_.valid()) return retry(now, errno_text(errno));
  stage_ = Stage::Connecting;
  wake_at_ = now + kAttempt;
  poller_.watch(connecting_.get(), EPOLLOUT, [this](std::uint32_t) { on_writable(); });
}

void Connector::on_writable() {
  if (int error = pending_error(connecting_.get()); error != 0) return retry(Clock::now(), errno_text(error));
  // A connection to a free port of this machine can by chance meet itself.
  if (local_endpoint(connecting_.get()).text() == peer_endpoint(connecting_.get()).text())
    return retry(Clock::now(), "nobody listens there");
  poller_.forget(connecting_.get());
  tune(connecting_.get(), options_.timeouts.peer + options_.timeouts.silence);
  connection_ = std::make_unique<Connection>(poller_, std::move(connecting_), *this);
  connection_->limit_input(kChallengeBytes);
  stage_ = Stage::Challenge;
}

void Connector::received(Connection& connection) {
  if (stage_ == Stage::Challenge) {
    auto bytes = connection.take<kChallengeBytes>();
    if (!bytes) return;
    auto challenge = decode_challenge(*bytes);
    if (!challenge) return retry(Clock::now(), "something listens there that is not Taxon");
    if (challenge->protocol != kProtocol) {
      stage_ = Stage::Done;
      return host_.denied(rendezvous_error(
          "rank 0's version of Taxon speaks another protocol: install the same on every host"));
    }
    answer(*challenge);
  }
  if (stage_ != Stage::Verdict) return;
  auto bytes = connection.take<kVerdictBytes>();
  if (!bytes) return;
  auto verdict = decode_verdict(*bytes);
  if (!verdict) return retry(Clock::now(), "something listens there that is not Taxon");
  conclude(*verdict);
}

void Connector::answer(const Challenge& challenge) {
  hub_nonce_ = challenge.nonce;
  hub_has_secret_ = challenge.has_secret;
  own_nonce_ = random_nonce();
  Answer answer{.has_secret = options_.secret.empty() ? HasSecret::No : HasSecret::Yes,
                .nonce = own_nonce_,
                .proof = prove(options_.secret, Role::Caller, hub_nonce_, own_nonce_)};
  connection_->limit_input(kVerdictBytes);
  connection_->send(encode(answer));
  stage_ = Stage::Verdict;
}

void Connector::conclude(const Verdict& verdict) {
  stage_ = Stage::Done;
  if (verdict.code == Verdict::Code::OtherProtocol)
    return host_.denied(rendezvous_error(
        "rank 0's version of Taxon speaks another protocol: install the same on every host"));
  bool proven = verdict.code == Verdict::Code::Welcome &&
                same(verdict.proof, prove(options_.secret, Role::Hub, hub_nonce_, own_nonce_));
  if (!proven) return host_.denied(rendezvous_error(secret_advice()));
  connection_->limit_frames({});
  pause_ = kFirstPause;
  endpoints_.clear();
  next_endpoint_ = 0;
  host_.connected(std::move(connection_), current_);
}

std::string Connector::secret_advice() const {
  std::string at =
      fmt::format("rank {}'s secret is not that of rank 0 at {}", options_.rank.value(), current_.text());
  if (hub_has_secret_ == HasSecret::Yes && options_.secret.empty())
    return fmt::format("rank 0 at {} has a secret and rank {} has none: {}", current_.text(),
                       options_.rank.value(), kHowToGetASecret);
  if (hub_has_secret_ == HasSecret::No && !options_.secret.empty())
    return at + ", which has none: another job may use this address";
  return at + ": give both the same TAXON_SECRET or TAXON_SECRET_FILE";
}

void Connector::closed(Connection&, const std::string&) {
  if (stage_ == Stage::Done) return;
  retry(Clock::now(), "the connection was closed before anything was said");
}

std::string Connector::status() const {
  std::string at = fmt::format("{}:{}", options_.address, options_.port);
  if (current_.size > 0 && current_.text() != at) at += " (" + current_.text() + ")";
  return fmt::format("cannot reach rank 0 at {}: {}", at,
                     last_problem_.empty() ? "no answer yet" : last_problem_);
}

}  // namespace taxon::control
