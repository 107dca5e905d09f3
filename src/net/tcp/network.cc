#include "net/tcp/network.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace taxon::net::tcp {
namespace {

/// What a frame carries at most. With windows (net/wire/send_window.h) a fragment is what is confirmed.
constexpr std::uint32_t kFragment = 256 << 10;
constexpr std::uint32_t kPacedFragment = 60 << 10;
/// Bytes of a connection per poll before others get their turn.
constexpr std::size_t kBudget = 2 << 20;
constexpr std::size_t kSink = 64 << 10;

Encryption encryption_of(const ProcessTransportOptions& options) {
  return options.encryption == ProcessTransportOptions::Encryption::Tls ? Encryption::Tls : Encryption::None;
}

struct CardHead {
  std::uint32_t magic = 0x50435400 | kVersion;  // "\1TCP" in memory
  std::uint32_t port = 0;
  Token token{};
};
static_assert(sizeof(CardHead) == 24);

}  // namespace

/// A connection on which a peer sends.
class TcpNetwork::Inbound final : public Watched {
 public:
  Inbound(Stream given, Rank source, Inbox& inbox, std::size_t fragment)
      : stream(std::move(given)), source(source), reader(inbox, source, fragment) {}
  void ready(std::uint32_t events) override {
    is_readable = true;
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) has_end = true;
  }

  Stream stream;
  const Rank source;
  FrameReader reader;
  bool is_of_other_life = false;  // all of it is thrown away
  bool is_readable = true;
  bool has_end = false;  // behind what is still to be read: no edge comes any more
};

TcpNetwork::TcpNetwork(task::Executor& executor, const ProcessTransportOptions& options, Inbox& inbox,
                       Completions& completions)
    : executor_(executor),
      options_(options),
      inbox_(inbox),
      completions_(completions),
      token_(random_token()),
      interface_(interface_of(options.address)),
      peers_(static_cast<std::size_t>(options.world_size)),
      waker_(executor, [] {}) {
  const Listener::Setting setting{options.rank, options.world_size, encryption_of(options),
                                  Key(options.secret, token_)};
  listener_.emplace(options.address, setting, poller_, static_cast<Listener::Host&>(*this));
}

TcpNetwork::~TcpNetwork() = default;

std::vector<std::byte> TcpNetwork::card() const {
  const CardHead head{.port = listener_->port(), .token = token_};
  std::vector<std::byte> bytes(sizeof head + options_.address.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, options_.address.data(), options_.address.size());
  return bytes;
}

std::unique_ptr<TcpPeer> TcpNetwork::connect(Rank rank, ConstView card) {
  CardHead head;
  if (card.size() <= sizeof head) throw Error(ErrorKind::Mismatch, "the address of a rank is cut short");
  std::memcpy(&head, card.data(), sizeof head);
  if (head.magic != CardHead().magic || head.port > 0xffff)
    throw Error(ErrorKind::Mismatch, "the ranks run versions of Taxon with different wire formats");
  const std::string address(reinterpret_cast<const char*>(card.data()) + sizeof head,
                            card.size() - sizeof head);
  const bool paced = options_.on_its_way == ProcessTransportOptions::OnItsWay::AsPathCarries;
  TcpPeer::Setting setting{
      .line = {.self = options_.rank,
               .peer = rank,
               .epoch = options_.job_epoch,
               .fragment = paced ? kPacedFragment : kFragment,
               .encryption = encryption_of(options_),
               .address = SocketAddress::of(address, static_cast<std::uint16_t>(head.port)),
               .key = Key(options_.secret, head.token)},
      .connections = options_.connections,
      .checksums = options_.payload_checksums,
      .executor = &executor_,
      .on_its_way = options_.on_its_way,
      .interface = interface_};
  auto peer = std::make_unique<TcpPeer>(std::move(setting), poller_, completions_);
  peers_[static_cast<std::size_t>(rank.value())] = peer.get();
  return peer;
}

void TcpNetwork::admitted(Stream stream, const Answer& answer) {
  const Rank source(answer.source);
  TcpPeer* const peer = peers_[static_cast<std::size_t>(answer.source)];
  inbound_.push_back(std::make_unique<Inbound>(std::move(stream), source, inbox_, answer.fragment));
  Inbound& here = *inbound_.back();
  poller_.watch(here.stream.fd(), here);
  // A rank of another life of the job may know the key and mean somebody else, and so may one that was not
  // told to come this way.
  here.is_of_other_life = answer.epoch != options_.job_epoch || peer == nullptr;
  if (here.is_of_other_life)
    inbox_.count_stale();
  else
    peer->opened();
}

bool TcpNetwork::read(Inbound& from) {
  if (from.reader.waits() && !from.reader.resume()) return false;
  bool any = false, ended = false;
  for (std::size_t budget = kBudget; from.is_readable && budget > 0 && !inbox_.broken();) {
    iovec pieces[2];
    int count = 1;
    if (from.is_of_other_life) {
      sink_.resize(kSink);
      pieces[0] = {sink_.data(), sink_.size()};
    } else {
      count = from.reader.places(pieces);
    }
    const Stream::Moved moved = from.stream.receive(pieces, count);
    any |= moved.bytes > 0;
    budget -= std::min(budget, moved.bytes);
    if (moved.state == Stream::State::Full && !(from.has_end && moved.bytes > 0)) from.is_readable = false;
    ended = moved.state == Stream::State::Closed || moved.state == Stream::State::Broken;
    if (ended) break;
    if (!from.is_of_other_life && moved.bytes > 0 && !from.reader.came(moved.bytes)) break;
  }
  if (!from.is_readable && !ended) from.stream.await(from.is_of_other_life ? 1 : from.reader.awaited());
  if (!ended) return any;
  poller_.forget(from.stream.fd());
  from.is_readable = false;
  if (!from.is_of_other_life) {
    TcpPeer& peer = *peers_[static_cast<std::size_t>(from.source.value())];
    const std::string why =
        from.stream.problem().empty() ? "the rank ended the connection" : from.stream.problem();
    // Whatever is on other connections of a rank that left in order is still read.
    if (!from.stream.problem().empty() || !from.reader.is_between_frames()) peer.fail(why);
    peer.closed(why);
  }
  std::erase_if(inbound_, [&](const auto& one) { return one.get() == &from; });
  return true;
}

bool TcpNetwork::poll() {
  const bool events = poller_.poll();
  bool worked = listener_->progress(executor_.now());
  for (std::size_t i = 0; i < inbound_.size();) {
    Inbound* const one = inbound_[i].get();
    if (one->is_readable || one->reader.waits()) worked |= read(*one);
    if (i < inbound_.size() && inbound_[i].get() == one) ++i;
  }
  for (TcpPeer* peer : peers_) {
    // Whoever leaves soon may have sent more on a connection whose handshake is not over at this end.
    if (peer != nullptr && peer->has_ended() && !listener_->is_admitting(peer->rank)) peer->fail_ended();
    if (peer == nullptr || !peer->has_lines() || (!events && peer->is_idle())) continue;
    worked |= peer->progress();
    if (peer->is_silent() && !listener_->has_guests()) peer->fail_silent();
  }
  wake_when_needed();
  return worked;
}

void TcpNetwork::wake_when_needed() {
  std::optional<Instant> when = listener_->next_look();
  for (const TcpPeer* peer : peers_)
    if (peer != nullptr && peer->next_look())
      when = std::min(when.value_or(*peer->next_look()), *peer->next_look());
  if (when) waker_.wake(*when);
}

bool TcpNetwork::arm() {
  if (listener_->is_busy()) return false;
  for (const auto& one : inbound_)
    if (one->is_readable && !one->reader.waits()) return false;
  return std::none_of(peers_.begin(), peers_.end(),
                      [](const TcpPeer* peer) { return peer != nullptr && peer->ready(); });
}

bool TcpNetwork::is_drained() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const TcpPeer* peer) { return peer == nullptr || peer->lost || peer->is_drained(); });
}

void TcpNetwork::close(End end) {
  for (TcpPeer*& peer : peers_) {
    if (peer == nullptr) continue;
    if (end == End::InOrder) peer->finish();
    peer->hang_up();
    peer = nullptr;
  }
  for (const auto& one : inbound_) poller_.forget(one->stream.fd());
  inbound_.clear();
  listener_.reset();
}

}  // namespace taxon::net::tcp
