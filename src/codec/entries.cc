#include "codec/entries.h"

#include "base/error.h"

namespace taxon::codec {

EntriesToFill entries_to_fill(View wire, std::size_t entries) {
  View body = body_of(wire);
  const std::size_t half = body.size() / 2;
  return {as_span<std::uint32_t>(body.slice(0, half)).first(entries),
          as_span<float>(body.slice(half, half)).first(entries)};
}

namespace {

void check_places(std::span<const std::uint32_t> places, std::uint64_t count) {
  bool ascend = true;
  for (std::size_t i = 1; i < places.size(); ++i) ascend &= places[i - 1] < places[i];
  if (!ascend || (!places.empty() && places.back() >= count))
    throw Error(ErrorKind::Transport, "a compressed gradient names places that are not there, or one twice");
}

}  // namespace

Entries open_places(ConstView wire, const Head& head) {
  const Opened opened = open(wire, places_bytes(head.entries), head);
  if (!opened.finite) return {{}, {}, false};
  const Entries entries{as_span<std::uint32_t>(opened.body).first(head.entries), {}};
  check_places(entries.places, head.count);
  return entries;
}

Entries open_entries(ConstView wire, const Head& head) {
  const Opened opened = open(wire, entries_bytes(head.entries), head);
  if (!opened.finite) return {{}, {}, false};
  const std::size_t half = opened.body.size() / 2;
  Entries entries{as_span<std::uint32_t>(opened.body.slice(0, half)).first(head.entries),
                  as_span<float>(opened.body.slice(half, half)).first(head.entries)};
  check_places(entries.places, head.count);
  return entries;
}

}  // namespace taxon::codec
