#include "net/wire/remote_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"

namespace taxon::net {
namespace {

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

RemoteFence join_remote_fences() {
  constexpr int kNeeded = MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
  const long offered = membarrier(MEMBARRIER_CMD_QUERY);
  if (offered < 0 || (offered & kNeeded) != kNeeded) return RemoteFence::Unavailable;
  return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 ? RemoteFence::Available
                                                                   : RemoteFence::Unavailable;
}

void fence_processes() {
  TAXON_CHECK(membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0, "membarrier was offered and is refused");
}

}  // namespace taxon::net
