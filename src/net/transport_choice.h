#pragma once

#include <string>
#include <vector>

namespace taxon::net {

/// One value of the plan's `transport` setting.
struct TransportChoice {
  const char* name;
  const char* explanation;
  const char* tls;  // what UCX may use, as in UCX_TLS
};

/// Every choice; the first is the default.
const std::vector<TransportChoice>& transport_choices();
/// Throws Error{Usage} listing the choices.
const TransportChoice& find_transport_choice(const std::string& name);
/// Their names, the default first.
std::vector<std::string> transport_names();

}  // namespace taxon::net
