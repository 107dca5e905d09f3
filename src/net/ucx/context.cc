#include "net/ucx/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include "net/local_address.h"

namespace taxon::net {
namespace {

const char* set_by_user(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != 0 ? value : nullptr;
}

/// Does a list in the format of UCX_TLS admit one of `names`?
bool admits(const std::string& tls, std::initializer_list<const char*> names) {
  bool named = std::any_of(names.begin(), names.end(),
                           [&](const char* name) { return tls.find(name) != std::string::npos; });
  return named != tls.starts_with('^');
}

void modify(ucp_config_t* config, const char* key, const char* value) {
  ucs_status_t status = ucp_config_modify(config, key, value);
  if (status != UCS_OK) throw ucx_error(fmt::format("UCX refuses {}={}", key, value), status);
}

/// Every RDMA port of this host, as in UCX_NET_DEVICES.
std::string rdma_ports() {
  std::string ports;
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", none))
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", none))
      ports += fmt::format("{}{}:{}", ports.empty() ? "" : ",", device.path().filename().string(),
                           port.path().filename().string());
  return ports;
}

/// The interface of the address, and RDMA ports if the address is not this host's alone.
std::string devices_at(const std::string& address) {
  const std::string interface = interface_of(address), ports = is_loopback(address) ? "" : rdma_ports();
  if (interface.empty())
    throw Error(ErrorKind::Transport,
                fmt::format("no interface that is up has the address {} of this rank", address));
  return ports.empty() ? interface : interface + "," + ports;
}

/// A list of devices names RDMA ports as "mlx5_0:1" and interfaces as "eth0"; the empty one is all.
bool names_interface(const std::string& devices) {
  std::istringstream names(devices);
  for (std::string name; std::getline(names, name, ',');)
    if (name.find(':') == std::string::npos) return true;
  return devices.empty();
}

/// UCX sends over TCP what fits one of its segments straight from the caller's memory and receives it as one
/// piece, with one system call each; the rest it cuts. As large as a receiver's segments are by default.
void enlarge_segments(ucp_config_t* config) {
  if (set_by_user("UCX_TCP_TX_SEG_SIZE") || set_by_user("UCX_TCP_RX_SEG_SIZE")) return;
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  bool with_prefix = std::pair(major, minor) >= std::pair(1U, 17U);
  modify(config, with_prefix ? "TCP_TX_SEG_SIZE" : "TX_SEG_SIZE", "64kb");
}

}  // namespace

Error ucx_error(const std::string& what, ucs_status_t status) {
  return Error(ErrorKind::Transport, fmt::format("{}: {} (UCX)", what, ucs_status_string(status)));
}

Error ucx_path_error(Rank peer, ucs_status_t status, bool is_short) {
  const bool refused = status == UCS_ERR_NO_MEMORY || status == UCS_ERR_EXCEEDS_LIMIT ||
                       (status == UCS_ERR_SHMEM_SEGMENT && is_short);
  const ErrorContext context{peer, "connection", {}};
  const std::string why = fmt::format("{} (UCX)", ucs_status_string(status));
  if (!refused)
    return Error(ErrorKind::PeerLost, fmt::format("the connection to rank {} broke: {}", peer.value(), why),
                 context);
  return Error(
      ErrorKind::Resources,
      fmt::format("no memory or files for the connection to rank {}: {}; raise the limits (ulimit -v, "
                  "ulimit -n, /dev/shm)",
                  peer.value(), why),
      context);
}

UcxContext::UcxContext(const TransportChoice& choice, const std::string& address) {
  if (choice.tls == nullptr)
    throw Error(ErrorKind::Usage, fmt::format("transport \"{}\" goes without UCX", choice.name));
  try {
    open_context(choice, address);
    open_worker();
  } catch (...) {
    close();
    throw;
  }
}

UcxContext::~UcxContext() { close(); }

void UcxContext::close() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  worker_ = nullptr;
  if (context_ != nullptr) ucp_cleanup(context_);
  context_ = nullptr;
}

void UcxContext::abandon() {
  worker_ = nullptr;
  context_ = nullptr;
}

void UcxContext::open_context(const TransportChoice& choice, const std::string& address) {
  ucp_config_t* raw = nullptr;
  if (ucs_status_t status = ucp_config_read(nullptr, nullptr, &raw); status != UCS_OK)
    throw ucx_error("the UCX_* settings of the environment can't be read", status);
  std::unique_ptr<ucp_config_t, void (*)(ucp_config_t*)> config(raw, &ucp_config_release);
  const char* given = set_by_user("UCX_TLS");
  std::string tls = given ? given : is_loopback(address) ? choice.tls_within_host : choice.tls;
  bool sysv = admits(tls, {"all", "sm", "shm", "mm", "sysv"}),
       posix = admits(tls, {"all", "sm", "shm", "mm", "posix"});
  may_share_memory_ = sysv || posix;
  allocates_in_dev_shm_ = posix && !sysv;
  if (!given) modify(raw, "TLS", tls.c_str());
  if (!set_by_user("UCX_ALLOC_PRIO"))
    modify(raw, "ALLOC_PRIO", sysv ? "md:sysv" : posix ? "md:posix" : "thp,mmap");
  // UCX 1.13 aborts in its progress when a TCP connection breaks under a zero-copy send (uct_iface.h,
  // "comp->count > 0"), which a peer's death must not do to us. Nor may the network hold the caller's memory.
  if (!set_by_user("UCX_ZCOPY_THRESH")) modify(raw, "ZCOPY_THRESH", "inf");
  // Otherwise UCX looks at a device only once its own thread has seen a first event there, and the first
  // connection to a rank that sleeps can go unnoticed for ever.
  if (!set_by_user("UCX_ADAPTIVE_PROGRESS")) modify(raw, "ADAPTIVE_PROGRESS", "n");
  // UCX listens on every interface that it is not told to leave alone, and trusts whoever connects.
  const char* given_devices = set_by_user("UCX_NET_DEVICES");
  const bool tcp = admits(tls, {"all", "tcp"});
  const std::string devices = given_devices ? given_devices : tcp ? devices_at(address) : rdma_ports();
  if (!given_devices && tcp) modify(raw, "NET_DEVICES", devices.c_str());
  if (tcp && names_interface(devices)) enlarge_segments(raw);  // UCX warns of settings that no device takes
  has_network_ =
      tcp || (devices.find(':') != std::string::npos && admits(tls, {"all", "ib", "rc", "ud", "dc"}));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  params.name = "taxon";
  if (ucs_status_t status = ucp_init(&params, raw, &context_); status != UCS_OK) {
    context_ = nullptr;
    throw ucx_error(
        fmt::format("UCX can't start with transport \"{}\". Check UCX_TLS and UCX_NET_DEVICES, and that "
                    "the open-file limit (ulimit -n) is not exhausted",
                    choice.name),
        status);
  }
}

void UcxContext::open_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (ucs_status_t status = ucp_worker_create(context_, &params, &worker_); status != UCS_OK) {
    worker_ = nullptr;
    throw ucx_error("UCX can't open its devices; is shared memory or the open-file limit exhausted?", status);
  }
  if (ucs_status_t status = ucp_worker_get_efd(worker_, &event_fd_); status != UCS_OK)
    throw ucx_error("UCX has no event descriptor for what it may use", status);
}

std::vector<std::byte> UcxContext::address(AddressOf which) const {
  ucp_worker_attr_t attr{};
  attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
  attr.address_flags = which == AddressOf::NetworkOnly ? UCP_WORKER_ADDRESS_FLAG_NET_ONLY : 0;
  if (ucs_status_t status = ucp_worker_query(worker_, &attr); status != UCS_OK)
    throw ucx_error("the worker's address", status);
  auto* begin = reinterpret_cast<const std::byte*>(attr.address);
  std::vector<std::byte> bytes(begin, begin + attr.address_length);
  ucp_worker_release_address(worker_, attr.address);
  return bytes;
}

}  // namespace taxon::net
