#pragma once

namespace taxon {

/// Freed memory stays with the process, for any thread and of any size, and serves the next allocation: a
/// step asks for the same blocks as that before it. By default glibc gives back to the system blocks of 32
/// MiB and more, and what lies free at the end of a thread's own heap, so that each step of a thread that
/// computes has its pages mapped and zeroed again. Of the whole process, so a program calls it, before its
/// first thread; a library doesn't. Does nothing to another malloc than glibc's.
void keep_freed_memory();

}  // namespace taxon
