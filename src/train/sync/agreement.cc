#include "train/sync/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "comm/told.h"
#include "train/units.h"

namespace taxon::train {
namespace {

// Agreements are rare and small: the rows that need nothing but messages serve them.
const comm::CollectiveRow& broadcast_row() { return comm::find_row(net::Operation::Broadcast, "tree"); }
const comm::CollectiveRow& gather_row() { return comm::find_row(net::Operation::AllGather, "ring"); }
const comm::CollectiveRow& sum_row() { return comm::find_row(net::Operation::AllReduce, "tree"); }

/// What is long travels in pieces, and memory is taken piece by piece: a rank that tells a wrong size makes
/// nobody take more than one piece too much.
constexpr std::uint64_t kPiece = std::uint64_t{16} << 20;

/// Makes room for the next piece of `size` bytes in all; a view of it.
View next_piece(std::vector<std::byte>* bytes, std::uint64_t at, std::uint64_t size) {
  const std::uint64_t more = std::min(kPiece, size - at);
  if (bytes->size() < at + more) bytes->resize(at + more);
  return View(bytes->data() + at, more);
}

/// Of what ranks compare in words, in bytes.
constexpr std::size_t kMostWords = 4096;

/// FNV-1a: the same on every machine.
std::uint64_t digest(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

Agreement::Agreement(comm::Communicator& group) : group_(group) {}

task::Task<std::vector<std::byte>> Agreement::broadcast(std::vector<std::byte> bytes) {
  if (group_.size() == 1) co_return bytes;
  std::uint64_t size = bytes.size();
  comm::Call head{as_view(std::span(&size, 1)), DType::UInt8, kAgreementUnit};
  co_await broadcast_row().run(group_, head);
  if (group_.rank() > 0) bytes.clear();
  std::uint64_t at = 0;
  do {
    comm::Call body{next_piece(&bytes, at, size), DType::UInt8, kAgreementUnit};
    co_await broadcast_row().run(group_, body);
    at += body.data.size();
  } while (at < size);
  co_return bytes;
}

task::Task<std::vector<std::vector<std::byte>>> Agreement::gather(std::vector<std::byte> bytes) {
  auto members = static_cast<std::size_t>(group_.size());
  auto self = static_cast<std::size_t>(group_.rank());
  if (members == 1) {
    std::vector<std::vector<std::byte>> alone;
    alone.push_back(std::move(bytes));
    co_return alone;
  }
  std::vector<std::uint64_t> sizes(members, 0);
  sizes[self] = bytes.size();
  comm::Call head{as_view(std::span(sizes)), DType::Int64, kAgreementUnit};
  co_await gather_row().run(group_, head);
  const std::uint64_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::vector<std::byte>> result(members);
  std::vector<std::byte> all;
  std::uint64_t at = 0;
  do {
    const std::uint64_t each = std::min(kPiece, longest - at);
    all.assign(members * each, std::byte{0});
    const auto piece_of = [&](std::size_t m) { return std::min(each, sizes[m] - std::min(at, sizes[m])); };
    if (piece_of(self) > 0) std::memcpy(all.data() + self * each, bytes.data() + at, piece_of(self));
    comm::Call body{as_view(std::span(all)), DType::UInt8, kAgreementUnit};
    co_await gather_row().run(group_, body);
    for (std::size_t m = 0; m < members; ++m) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(m * each);
      result[m].insert(result[m].end(), begin, begin + static_cast<std::ptrdiff_t>(piece_of(m)));
    }
    at += each;
  } while (at < longest);
  co_return result;
}

task::Task<void> Agreement::send(int member, net::Tag tag, const std::vector<std::byte>* bytes) {
  net::Transport& transport = group_.runtime().transport;
  const std::uint64_t size = bytes->size();
  net::Tag head = tag;
  head.round = 1;
  net::SendOp length(transport, group_.global(member), head, as_const_view(std::span(&size, 1)),
                     DType::UInt8);
  co_await length;
  for (std::uint64_t at = 0; at < size; at += kPiece) {
    ++head.round;
    net::SendOp body(transport, group_.global(member), head,
                     ConstView(bytes->data() + at, std::min(kPiece, size - at)), DType::UInt8);
    co_await body;
  }
}

task::Task<std::vector<std::byte>> Agreement::receive(int member, net::Tag tag) {
  net::Transport& transport = group_.runtime().transport;
  std::uint64_t size = 0;
  net::Tag head = tag;
  head.round = 1;
  net::RecvOp length(transport, group_.global(member), head, as_view(std::span(&size, 1)), DType::UInt8);
  co_await length;
  std::vector<std::byte> bytes;
  for (std::uint64_t at = 0; at < size; at += kPiece) {
    ++head.round;
    net::RecvOp body(transport, group_.global(member), head, next_piece(&bytes, at, size), DType::UInt8);
    co_await body;
  }
  co_return bytes;
}

task::Task<std::vector<std::vector<std::byte>>> Agreement::collect(std::vector<std::byte> bytes) {
  const net::Tag tag = group_.begin(net::Operation::User, kAgreementUnit);
  std::vector<std::vector<std::byte>> all;
  if (group_.rank() > 0) {
    co_await send(0, tag, &bytes);
    co_return all;
  }
  all.push_back(std::move(bytes));
  for (int member = 1; member < group_.size(); ++member) {
    std::vector<std::byte> theirs = co_await receive(member, tag);
    all.push_back(std::move(theirs));
  }
  co_return all;
}

task::Task<std::vector<std::byte>> Agreement::hand_out(std::vector<std::vector<std::byte>> bytes) {
  const net::Tag tag = group_.begin(net::Operation::User, kAgreementUnit);
  if (group_.rank() > 0) {
    co_return co_await receive(0, tag);
  }
  for (int member = 1; member < group_.size(); ++member) {
    co_await send(member, tag, &bytes[static_cast<std::size_t>(member)]);
  }
  co_return std::move(bytes.front());
}

task::Task<std::vector<double>> Agreement::sum(std::vector<double> values) {
  if (group_.size() == 1 || values.empty()) co_return values;
  comm::Call call{as_view(std::span(values)), DType::Float64, kAgreementUnit};
  co_await sum_row().run(group_, call);
  co_return values;
}

/// Few messages while all is well; who differs is only asked when somebody does.
task::Task<bool> Agreement::is_equal(std::uint64_t value) {
  if (group_.size() == 1) co_return true;
  std::uint64_t first_value = value;
  comm::Call head{as_view(std::span(&first_value, 1)), DType::UInt8, kAgreementUnit};
  co_await broadcast_row().run(group_, head);
  std::vector<double> differing(1, value == first_value ? 0.0 : 1.0);
  differing = co_await sum(std::move(differing));
  co_return differing[0] == 0;
}

task::Task<void> Agreement::require_equal(std::uint64_t value, std::string what) {
  const bool equal = co_await is_equal(value);
  if (equal) co_return;
  std::string words = fmt::format("{:016x}", value);
  co_await name_differing(std::move(words), std::move(what));
}

task::Task<void> Agreement::require_equal(std::string value, std::string what) {
  const bool equal = co_await is_equal(digest(value));
  if (equal) co_return;
  co_await name_differing(std::move(value), std::move(what));
}

task::Task<void> Agreement::name_differing(std::string value, std::string what) {
  std::vector<std::byte> bytes(value.size());
  std::memcpy(bytes.data(), value.data(), value.size());
  auto all = co_await gather(std::move(bytes));
  std::map<std::string, int> votes;
  std::vector<std::string> values;
  for (std::size_t m = 0; m < all.size(); ++m) {
    const auto& one = all[m];
    values.emplace_back(reinterpret_cast<const char*>(one.data()), std::min(one.size(), kMostWords));
    const bool printable =
        std::all_of(values.back().begin(), values.back().end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (one.size() > kMostWords || !printable)
      throw comm::told_wrong(group_.global(static_cast<int>(m)), "agreement",
                             fmt::format("{} in {} bytes that are no words", what, one.size()));
    ++votes[values.back()];
  }
  auto common = std::max_element(votes.begin(), votes.end(), [](auto& a, auto& b) {
                  return a.second < b.second;
                })->first;
  std::string ranks;
  std::optional<Rank> first;
  for (std::size_t m = 0; m < values.size(); ++m)
    if (values[m] != common) {
      ranks += fmt::format("{}{} ({})", ranks.empty() ? "" : ", ", group_.global(static_cast<int>(m)).value(),
                           values[m]);
      if (!first) first = group_.global(static_cast<int>(m));
    }
  throw Error(ErrorKind::Mismatch,
              fmt::format("{} differ between ranks: most have {}, but not rank {}", what, common, ranks),
              {first, "agreement", what});
}

}  // namespace taxon::train
