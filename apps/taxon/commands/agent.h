#pragma once

namespace taxon::app {

/// `taxon agent`: looks at its host, then runs its ranks. Returns as run_workers().
int run_agent();

}  // namespace taxon::app
