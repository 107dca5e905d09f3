#pragma once

#include <map>
#include <vector>

#include "net/region_table.h"
#include "net/transport.h"
#include "net/ucx/context.h"

namespace taxon::net {

/// The regions of this rank, and those of peers that this process mapped.
class UcxMemory {
 public:
  UcxMemory(UcxContext& context, Rank self) : context_(context), self_(self) {}
  UcxMemory(const UcxMemory&) = delete;
  ~UcxMemory();

  /// Zeroed. Throws Error{Transport} that says what to do.
  Region allocate(std::size_t size);
  /// The peer's region through `endpoint`; empty where it can't be mapped. Mappings stay until unmap_all().
  View map(ucp_ep_h endpoint, const RemoteRegion& region);
  /// Before the worker closes.
  void unmap_all();
  const RegionTable& regions() const { return regions_; }

 private:
  class Memory;
  struct Mapping {
    std::vector<std::byte> key;
    ucp_rkey_h rkey;
    View view;
  };
  UcxContext& context_;
  Rank self_;
  RegionTable regions_;
  std::map<std::pair<Rank, std::uint64_t>, Mapping> mappings_;  // by owner and address there
  std::vector<ucp_rkey_h> replaced_;                            // of regions whose address was used again
};

}  // namespace taxon::net
