#include "net/ucx/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/units.h"

namespace taxon::net {
namespace {

constexpr std::size_t kPage = 4096;

double free_in_dev_shm() {
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) != 0) return 0;
  return static_cast<double>(shm.f_bavail) * static_cast<double>(shm.f_frsize);
}

std::string memory_limits() {
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  std::string largest = "unknown", pages = "unknown";
  std::ifstream("/proc/sys/kernel/shmmax") >> largest;
  std::ifstream("/proc/sys/kernel/shmall") >> pages;
  return fmt::format(
      "limits here: largest System V segment {} bytes (sysctl kernel.shmmax), all of them {} pages "
      "(kernel.shmall), "
      "/dev/shm {} free, locked memory {} (ulimit -l)",
      largest, pages, format_bytes(free_in_dev_shm()),
      locked.rlim_cur == RLIM_INFINITY ? "unlimited" : format_bytes(static_cast<double>(locked.rlim_cur)));
}

Error allocation_error(std::size_t size, const std::string& why) {
  return Error(
      ErrorKind::Transport,
      fmt::format(
          "{} of memory that peers can reach is not to be had: {}. Raise the limit that is too low, or "
          "set transport: tcp, which needs none of them; {}.",
          format_bytes(static_cast<double>(size)), why, memory_limits()));
}

/// Makes every page exist now: the kernel gives those of shared memory when they are first touched, and
/// SIGBUS when there are none left. Empty, or why it failed.
std::string populate(void* memory, std::size_t size) {
  if (madvise(memory, size, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
    return {};  // EINVAL: before Linux 5.14
  return fmt::format("the system is out of (shared) memory: {}", std::strerror(errno));
}

}  // namespace

class UcxMemory::Memory final : public Region::Impl {
 public:
  Memory(UcxMemory& owner, ucp_mem_h handle, View view) : owner_(owner), handle_(handle), view_(view) {
    owner_.regions_.add(view_);
  }
  ~Memory() override {
    owner_.regions_.remove(view_);
    ucp_mem_unmap(owner_.context_.context(), handle_);
  }
  View bytes() const override { return view_; }
  RemoteRegion share() const override {
    void* packed = nullptr;
    std::size_t size = 0;
    if (ucs_status_t status = ucp_rkey_pack(owner_.context_.context(), handle_, &packed, &size);
        status != UCS_OK)
      throw ucx_error("a region can't be shared", status);
    auto* begin = static_cast<const std::byte*>(packed);
    RemoteRegion region{
        owner_.self_, reinterpret_cast<std::uint64_t>(view_.data()), view_.size(), {begin, begin + size}};
    ucp_rkey_buffer_release(packed);
    return region;
  }

 private:
  UcxMemory& owner_;
  ucp_mem_h handle_;
  View view_;
};

UcxMemory::~UcxMemory() {
  TAXON_CHECK(regions_.size() == 0, regions_.size(), " regions outlive their transport");
  TAXON_CHECK(mappings_.empty() && replaced_.empty(), "mappings outlive their worker");
}

Region UcxMemory::allocate(std::size_t size) {
  TAXON_CHECK(size > 0, "an empty region");
  // UCX would fill /dev/shm page by page before it fails, and leave the file there when it is killed
  // meanwhile.
  if (context_.allocates_in_dev_shm() && static_cast<double>(size) > free_in_dev_shm())
    throw allocation_error(size, "/dev/shm is too small");
  ucp_mem_map_params_t params{};
  params.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.address = nullptr;
  params.length = (size + kPage - 1) / kPage * kPage;
  params.flags = UCP_MEM_MAP_ALLOCATE;
  ucp_mem_h handle = nullptr;
  if (ucs_status_t status = ucp_mem_map(context_.context(), &params, &handle); status != UCS_OK)
    throw allocation_error(size, ucs_status_string(status));
  ucp_mem_attr_t attr{};
  attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  ucp_mem_query(handle, &attr);
  if (std::string why = populate(attr.address, params.length); !why.empty()) {
    ucp_mem_unmap(context_.context(), handle);
    throw allocation_error(size, why);
  }
  View view(static_cast<std::byte*>(attr.address), size);
  std::memset(view.data(), 0, size);
  return Region(std::make_unique<Memory>(*this, handle, view));
}

View UcxMemory::map(ucp_ep_h endpoint, const RemoteRegion& region) {
  std::pair<Rank, std::uint64_t> where{region.owner, region.address};
  auto known = mappings_.find(where);
  if (known != mappings_.end()) {
    if (known->second.key == region.key) return known->second.view;
    replaced_.push_back(known->second.rkey);
    mappings_.erase(known);
  }
  ucp_rkey_h rkey = nullptr;
  if (ucp_ep_rkey_unpack(endpoint, region.key.data(), &rkey) != UCS_OK) return {};
  void* local = nullptr;
  if (ucp_rkey_ptr(rkey, region.address, &local) != UCS_OK) {
    ucp_rkey_destroy(rkey);
    return {};
  }
  View view(static_cast<std::byte*>(local), region.size);
  mappings_.emplace(where, Mapping{region.key, rkey, view});
  return view;
}

void UcxMemory::unmap_all() {
  for (auto& [where, mapping] : mappings_) ucp_rkey_destroy(mapping.rkey);
  for (ucp_rkey_h rkey : replaced_) ucp_rkey_destroy(rkey);
  mappings_.clear();
  replaced_.clear();
}

}  // namespace taxon::net
