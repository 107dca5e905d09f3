#include "control/acceptor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/failure.h"

namespace taxon::control {
namespace {

constexpr auto kGuestPatience = std::chrono::seconds(10);
constexpr std::size_t kSpareGuests = 64;
// A first message holds a few names and the rank's address.
constexpr FrameLimits kHelloLimits{.head = std::size_t{64} << 10, .body = std::size_t{1} << 20};

/// Addresses that no other host can mean. A host's own name is not one of them: it may be 127.0.1.1 here and
/// something else elsewhere.
bool is_this_machine(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

[[noreturn]] void refuse(const std::string& message, ErrorKind kind = ErrorKind::Rendezvous) {
  throw Error(kind, message, {.rank = Rank(0), .operation = "rendezvous"});
}

}  // namespace

Acceptor::Acceptor(const JoinOptions& options, Poller& poller, Host& host)
    : options_(options), poller_(poller), host_(host) {}

Acceptor::~Acceptor() {
  if (listener_.valid()) poller_.forget(listener_.get());
}

void Acceptor::open() {
  Listening listening;
  where_ = fmt::format("{}:{}", options_.address, options_.port);
  if (options_.secret.empty() || is_this_machine(options_.address)) {
    Resolution found = resolve(options_.address, options_.port);
    if (found.endpoints.empty())
      refuse(fmt::format(
          "rank 0 cannot listen: {}: set MASTER_ADDR to an address of rank 0's host on every rank",
          found.problem));
    const Endpoint& here = found.endpoints.front();
    if (!here.is_loopback())
      refuse(
          fmt::format("without a secret a job stays on this machine (127.0.0.1), but its address is {}: {}",
                      here.text(), kHowToGetASecret));
    listening = listen_on(here);
  } else {
    // The job's name may mean another address here than elsewhere (127.0.1.1, or a service's virtual
    // address).
    listening = listen_everywhere(options_.port);
  }
  if (is_exhaustion(listening.error))
    refuse(fmt::format("rank 0 cannot listen at {}: {}: raise ulimit -n", where_, listening.problem),
           ErrorKind::Resources);
  if (!listening.problem.empty())
    refuse(fmt::format("rank 0 cannot listen at {}: {}. Another job may run here: choose another MASTER_PORT",
                       where_, listening.problem));
  listener_ = std::move(listening.fd);
  poller_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_all(); });
}

void Acceptor::admit_own(Fd fd) {
  Guest guest{std::make_unique<Connection>(poller_, std::move(fd), *this),
              Guest::Stage::Hello,
              {},
              Clock::now(),
              options_.address};
  guest.connection->limit_frames(kHelloLimits);
  Connection* key = guest.connection.get();
  guests_.emplace(key, std::move(guest));
}

void Acceptor::accept_all() {
  while (true) {
    Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      welcome(std::move(fd));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The listener would stay readable: rest until the next tick instead of spinning.
      host_.turned_away("too many open files at rank 0 (" + errno_text(errno) + "): raise ulimit -n");
      poller_.change(listener_.get(), 0);
      resting_ = true;
    }
    return;
  }
}

std::size_t Acceptor::max_guests() const {
  return kSpareGuests + 2 * static_cast<std::size_t>(options_.world_size);
}

void Acceptor::welcome(Fd fd) {
  if (guests_.size() >= max_guests()) {
    auto oldest = std::min_element(guests_.begin(), guests_.end(), [](const auto& a, const auto& b) {
      return a.second.since < b.second.since;
    });
    guests_.erase(oldest);
  }
  tune(fd.get(), options_.timeouts.peer + options_.timeouts.silence);
  Guest guest;
  guest.address = peer_endpoint(fd.get()).host();
  guest.connection = std::make_unique<Connection>(poller_, std::move(fd), *this);
  guest.connection->limit_input(kAnswerBytes);
  guest.nonce = random_nonce();
  guest.since = Clock::now();
  Challenge challenge{.has_secret = options_.secret.empty() ? HasSecret::No : HasSecret::Yes,
                      .nonce = guest.nonce};
  guest.connection->send(encode(challenge));
  Connection* key = guest.connection.get();
  guests_.emplace(key, std::move(guest));
}

void Acceptor::received(Connection& connection) {
  Guest& guest = guests_.at(&connection);
  if (guest.stage == Guest::Stage::Answer) {
    auto bytes = connection.take<kAnswerBytes>();
    if (!bytes || !check_answer(guest, *bytes)) return;
    guest.stage = Guest::Stage::Hello;
    connection.limit_frames(kHelloLimits);
  }
  std::optional<Message> hello;
  try {
    hello = connection.next();
  } catch (const ProtocolError& error) {
    return turn_away(connection, error.what());
  }
  if (!hello) return;
  Guest known = std::move(guest);
  guests_.erase(&connection);
  host_.arrived(std::move(known.connection), std::move(*hello), known.address);
}

bool Acceptor::check_answer(Guest& guest, const std::array<std::byte, kAnswerBytes>& bytes) {
  auto answer = decode_answer(bytes);
  Connection& connection = *guest.connection;
  if (!answer) {
    turn_away(connection, "it does not speak Taxon's protocol");
    return false;
  }
  Verdict verdict;
  if (answer->protocol != kProtocol)
    verdict.code = Verdict::Code::OtherProtocol;
  else if (!same(answer->proof, prove(options_.secret, Role::Caller, guest.nonce, answer->nonce)))
    verdict.code = Verdict::Code::WrongSecret;
  else
    verdict.proof = prove(options_.secret, Role::Hub, guest.nonce, answer->nonce);
  connection.send(encode(verdict));
  if (verdict.code == Verdict::Code::Welcome) return true;
  turn_away(connection, verdict.code == Verdict::Code::WrongSecret
                            ? "its secret is not this job's"
                            : "its version of Taxon speaks another protocol");
  return false;
}

void Acceptor::turn_away(Connection& connection, const std::string& why) {
  auto found = guests_.find(&connection);
  std::string line = fmt::format("a caller from {} was turned away: {}", found->second.address, why);
  guests_.erase(found);
  // A scanner calls again and again; one line for each kind is enough, and the set stays small.
  if (reported_.size() < kSpareGuests && reported_.insert(line).second) host_.turned_away(line);
}

void Acceptor::closed(Connection& connection, const std::string&) { guests_.erase(&connection); }

void Acceptor::tick(Clock::time_point now) {
  if (resting_) {
    poller_.change(listener_.get(), EPOLLIN);
    resting_ = false;
  }
  std::erase_if(guests_, [&](const auto& entry) { return now - entry.second.since > kGuestPatience; });
}

}  // namespace taxon::control
