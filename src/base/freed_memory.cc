#include "base/freed_memory.h"

#include <malloc.h>

namespace taxon {

void keep_freed_memory() {
  mallopt(M_ARENA_MAX, 1);  // other threads' heaps are unmapped where they are free, whatever is asked for
  mallopt(M_MMAP_MAX, 0);   // what is mapped for itself is unmapped when it is freed
  mallopt(M_TRIM_THRESHOLD, -1);  // never
}

}  // namespace taxon
