#include "net/mailbox.h"

#include <xxhash.h>

namespace taxon::net {

std::uint64_t hash_match(Rank source, const Tag& tag) {
  static_assert(std::has_unique_object_representations_v<Tag>, "a tag is hashed as bytes");
  return XXH3_64bits_withSeed(&tag, sizeof tag, static_cast<std::uint64_t>(source.value()));
}

}  // namespace taxon::net
