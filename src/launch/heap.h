#pragma once

#include <string>

namespace taxon::launch {

inline constexpr const char* kHugePagesFile = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Whom the system gives huge pages: "always", "madvise" (who asks), "never"; "unknown" where it does not
/// say.
std::string huge_pages_mode(const std::string& file = kHugePagesFile);
bool are_huge_pages_given(const std::string& mode);

/// Makes the heap of this process as a step wants it, which asks for the same blocks as that before it.
/// - Freed memory stays with the process, for any thread and of any size, and serves the next allocation.
///   By default glibc gives back to the system blocks of 32 MiB and more, and what lies free at the end of a
///   thread's own heap, so that each step of a thread that computes has its pages mapped and zeroed again.
/// - It lies in huge pages, where the system gives them to who asks: fewer misses of the TLB, and how pages
///   happen to lie in caches differs less from process to process. Addresses for half of the machine's memory
///   are reserved for it (virtual size, not resident), unless limits or strict overcommit forbid it.
/// Of the whole process, so a program calls it, before its first thread; a library doesn't. What was
/// allocated before, such as by initialisers of libraries, is not moved, so the earlier the better: it may be
/// called before they run (.preinit_array). Does nothing to another malloc than glibc's.
void tune_heap();

}  // namespace taxon::launch
