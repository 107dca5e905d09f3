#include "net/ucx/transports.h"

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include <vector>

namespace taxon::net {
namespace {

using Transports = std::map<std::string, std::set<std::string>>;

void add_resources(uct_md_h domain, Transports& found) {
  uct_tl_resource_desc_t* resources = nullptr;
  unsigned count = 0;
  if (uct_md_query_tl_resources(domain, &resources, &count) != UCS_OK) return;
  for (unsigned i = 0; i < count; ++i) found[resources[i].tl_name].insert(resources[i].dev_name);
  uct_release_tl_resource_list(resources);
}

void add_domain(uct_component_h component, const char* name, Transports& found) {
  uct_md_config_t* config = nullptr;
  if (uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) return;
  uct_md_h domain = nullptr;
  ucs_status_t opened = uct_md_open(component, name, config, &domain);
  uct_config_release(config);
  if (opened != UCS_OK) return;
  add_resources(domain, found);
  uct_md_close(domain);
}

void add_component(uct_component_h component, Transports& found) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (uct_component_query(component, &attributes) != UCS_OK) return;
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  if (uct_component_query(component, &attributes) != UCS_OK) return;
  for (const auto& domain : domains) add_domain(component, domain.md_name, found);
}

}  // namespace

std::map<std::string, std::set<std::string>> ucx_transports() {
  Transports found;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (uct_query_components(&components, &count) != UCS_OK) return found;
  for (unsigned i = 0; i < count; ++i) add_component(components[i], found);
  uct_release_component_list(components);
  return found;
}

std::string ucx_version() { return ucp_get_version_string(); }

}  // namespace taxon::net
