#include "comm/tensors/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/cache_line.h"
#include "base/units.h"

namespace taxon::comm {
namespace {

constexpr int kFreed = 0xeb;
constexpr std::size_t kMapLines = 32;
/// Between looks at what several lenders' peers have released.
constexpr Duration kLook = std::chrono::microseconds(100);

std::string in_words(std::size_t bytes) { return format_bytes(static_cast<double>(bytes)); }

}  // namespace

struct TensorBlock::Lease {
  Lease(TensorArena& arena, View bytes, RemoteBlock remote) : arena(arena), bytes(bytes), remote(remote) {}
  Lease(const Lease&) = delete;
  ~Lease() { arena.give_back(remote); }
  TensorArena& arena;
  View bytes;
  RemoteBlock remote;
};

View TensorBlock::bytes() const {
  TAXON_CHECK(lease_, "an empty tensor block has no bytes");
  return lease_->bytes;
}

RemoteBlock TensorBlock::remote() const {
  TAXON_CHECK(lease_, "an empty tensor block is nowhere");
  return lease_->remote;
}

TensorArena::TensorArena(net::Transport& transport, TensorArenaOptions options)
    : transport_(transport), options_(options) {
  TAXON_CHECK(options.bytes > 0 && options.blocks > 0, options.bytes, " bytes, ", options.blocks, " blocks");
  options_.bytes = round_to_line(options.bytes);
  const std::size_t ledger = round_to_line(options.blocks * sizeof(std::uint64_t));
  payload_ = transport.allocate(options_.bytes);
  control_ = transport.allocate(ledger + round_to_line(options.control));
  TAXON_CHECK(!control().is_phantom(), "control memory must be real: fewer blocks");
  free_.emplace(0, options_.bytes);
  entries_.resize(options.blocks);
  for (std::uint32_t index = options.blocks; index > 0; --index) free_entries_.push_back(index - 1);
  control_used_.emplace(0, ledger);
}

TensorArena::~TensorArena() {
  TAXON_CHECK(used_ == 0, "blocks outlive their tensor arena:\n", map());
  TAXON_CHECK(lenders_.empty() && control_used_.size() == 1, "channels outlive their tensor arena");
}

std::uint64_t TensorArena::raise_generation(std::uint32_t index) {
  auto word = std::atomic_ref(reinterpret_cast<std::uint64_t*>(control().data())[index]);
  const std::uint64_t next = word.load(std::memory_order_relaxed) + 1;
  word.store(next, std::memory_order_release);
  // As a writer of a sequence lock: whoever sees a byte that is written from now on sees the new generation.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return next;
}

std::optional<TensorBlock> TensorArena::try_allocate(std::size_t size, const std::string& label) {
  const std::size_t rounded = std::max(round_to_line(size), kCacheLine);
  auto best = free_.end();
  for (auto piece = free_.begin(); piece != free_.end(); ++piece)
    if (piece->second >= rounded && (best == free_.end() || piece->second < best->second)) best = piece;
  if (best == free_.end() || free_entries_.empty()) return {};
  const auto [offset, room] = *best;
  free_.erase(best);
  if (room > rounded) free_.emplace(offset + rounded, room - rounded);
  const std::uint32_t index = free_entries_.back();
  free_entries_.pop_back();
  entries_[index] = {offset, rounded, label, true};
  used_ += rounded;
  high_water_ = std::max(high_water_, used_);
  const RemoteBlock remote{offset, size, raise_generation(index), index, 0};
  return TensorBlock(
      std::make_shared<TensorBlock::Lease>(*this, payload_.bytes().slice(offset, size), remote));
}

void TensorArena::give_back(const RemoteBlock& block) {
  raise_generation(block.index);
  Entry& entry = entries_[block.index];
  const View bytes = payload_.bytes().slice(entry.offset, entry.size);
  if (options_.integrity == Integrity::Checked && !bytes.is_phantom())
    std::memset(bytes.data(), kFreed, bytes.size());
  used_ -= entry.size;
  entry.used = false;
  free_entries_.push_back(block.index);
  auto piece = free_.emplace(entry.offset, entry.size).first;
  if (auto next = std::next(piece); next != free_.end() && piece->first + piece->second == next->first) {
    piece->second += next->second;
    free_.erase(next);
  }
  if (piece == free_.begin()) return;
  auto before = std::prev(piece);
  if (before->first + before->second != piece->first) return;
  before->second += piece->second;
  free_.erase(piece);
}

void TensorArena::reclaim() {
  for (Lender* lender : lenders_) lender->reclaim();
}

task::Task<TensorBlock> TensorArena::allocate(std::size_t size, std::string label) {
  task::Executor& executor = transport_.executor();
  for (const Instant since = executor.now();;) {
    if (auto block = try_allocate(size, label)) co_return std::move(*block);
    reclaim();
    if (auto block = try_allocate(size, label)) co_return std::move(*block);
    const auto lends = [](const Lender* one) { return one->lends(); };
    const auto lender = std::find_if(lenders_.begin(), lenders_.end(), lends);
    if (size > capacity() || lender == lenders_.end())
      throw Error(
          ErrorKind::Transport,
          fmt::format("the tensor arena has no room for {} ({}): {} of {} are in use, and no peer has "
                      "anything to release. Give it more memory, or release tensors earlier.\n{}",
                      in_words(size), label, in_words(used_), in_words(capacity()), map()),
          ErrorContext{{}, "tensor channel", label});
    if (std::count_if(lender, lenders_.end(), lends) == 1) {
      auto released = (*lender)->wait_for_release();
      co_await released;
    } else {  // any of their peers may be the one that releases something
      task::SleepUntil pause(executor, transport_.pending(), executor.now() + kLook,
                             "room in a tensor arena for " + label, since);
      co_await pause;
    }
  }
}

RemoteArena TensorArena::share() const { return {payload_.share(), control_.share(), options_.blocks}; }

std::string TensorArena::map() const {
  std::map<std::size_t, std::string> lines;
  for (const auto& [offset, size] : free_) lines[offset] = fmt::format("{} free", in_words(size));
  for (const Entry& entry : entries_)
    if (entry.used)
      lines[entry.offset] =
          fmt::format("{} {}", in_words(entry.size), entry.label.empty() ? "-" : entry.label);
  std::string text = fmt::format("tensor arena of {}, {} of {} blocks in use:", in_words(capacity()),
                                 options_.blocks - free_entries_.size(), options_.blocks);
  std::size_t shown = 0;
  for (const auto& [offset, line] : lines) {
    if (++shown > kMapLines) return text + fmt::format("\n  and {} more pieces", lines.size() - kMapLines);
    text += fmt::format("\n  at {}: {}", offset, line);
  }
  return text;
}

std::size_t TensorArena::take_control(std::size_t size) {
  const std::size_t rounded = std::max(round_to_line(size), kCacheLine);
  std::size_t offset = 0;
  for (const auto& [begin, length] : control_used_) {
    if (begin - offset >= rounded) break;
    offset = begin + length;
  }
  if (rounded > control().size() - offset)
    throw Error(ErrorKind::Transport,
                fmt::format("the tensor arena has no room for another channel's metadata ({} bytes of {}): "
                            "raise TensorArenaOptions::control or open channels of less depth",
                            rounded, options_.control));
  control_used_.emplace(offset, rounded);
  std::memset(control().data() + offset, 0, rounded);
  return offset;
}

void TensorArena::give_control(std::size_t offset) { control_used_.erase(offset); }

}  // namespace taxon::comm
