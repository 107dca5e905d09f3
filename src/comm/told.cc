#include "comm/told.h"

#include <fmt/format.h>

namespace taxon::comm {

Error told_wrong(Rank from, const std::string& operation, const std::string& what) {
  return Error(ErrorKind::Mismatch,
               fmt::format("rank {} told something in {} that can't be: {}. Either it runs another version "
                           "or plan, or its memory or the way from it is damaged.",
                           from.value(), operation, what),
               ErrorContext{from, operation, {}});
}

}  // namespace taxon::comm
