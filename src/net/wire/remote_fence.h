#pragma once

namespace taxon::net {

/// Memory fences that one process executes for others, by membarrier(2): what is done rarely pays for what is
/// done often. After fence_processes() returned, every thread of every process that joined it has executed a
/// full fence at some point between the call and the return.
enum class RemoteFence { Available, Unavailable };

/// Lets this process be fenced by others. Unavailable where the kernel, or what guards it, does not offer it.
/// Any thread; a call again costs little.
RemoteFence join_remote_fences();

/// Fences the caller and all processes that joined. Some microseconds.
/// REQUIRES: join_remote_fences() said Available.
void fence_processes();

}  // namespace taxon::net
