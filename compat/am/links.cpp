// Links and their nodes: ape_open and its family.
#include <deque>

#include "handles.hpp"
#include "refusal.hpp"

using namespace onstream;
using namespace onstream::am;

namespace {

apelink_t made_handle(std::shared_ptr<Link> link) {
  static std::mutex mutex;
  static auto* const handles = new std::deque<onstream_apelink>;  // threads may use them while the process ends
  const std::lock_guard lock(mutex);
  onstream_apelink& handle = handles->emplace_back();
  handle.link = std::move(link);
  return &handle;
}

}  // namespace

std::shared_ptr<Link> onstream::am::link_of(apelink_t handle) {
  accept_if(handle != nullptr, APELINK_EINVAL, "the link is null");
  const std::lock_guard lock(handle->mutex);
  accept_if(handle->link != nullptr, APELINK_ECLOSED, "the link is closed");
  return handle->link;
}

apelink_t ape_open(int dev, am_portid_t* port) {
  apelink_t opened = nullptr;
  (void)guarded("ape_open", [&] {
    accept_if(dev == 0, APELINK_EINVAL, "there is no device ", dev, "; a rank has one, 0");
    accept_if(port != nullptr, APELINK_EINVAL, "the port's address is null");
    std::shared_ptr<Link> link = open_link();
    *port = link->port();
    opened = made_handle(std::move(link));
    return APELINK_SUCCESS;
  });
  return opened;
}

int ape_close(apelink_t handle) {
  return guarded("ape_close", [&] {
    std::shared_ptr<Link> link = link_of(handle);
    {
      const std::lock_guard lock(handle->mutex);
      accept_if(handle->link != nullptr, APELINK_ECLOSED, "the link is closed");  // by another thread, just now
      handle->link.reset();
    }
    link->close();
    return APELINK_NOERROR;
  });
}

int ape_get_topology(apelink_t handle, unsigned* nx, unsigned* ny, unsigned* nz) {
  return guarded("ape_get_topology", [&] {
    accept_if(nx != nullptr && ny != nullptr && nz != nullptr, APELINK_EINVAL, "an axis's address is null");
    const std::shared_ptr<Link> link = link_of(handle);
    const std::array<unsigned, 3>& shape = link->runtime().torus().shape();
    *nx = shape[0];
    *ny = shape[1];
    *nz = shape[2];
    return APELINK_SUCCESS;
  });
}

ape_net_address_t ape_get_self_address(apelink_t handle) {
  ape_net_address_t address;
  address.u = ~std::uint32_t{0};
  (void)guarded("ape_get_self_address", [&] {
    const Runtime& runtime = link_of(handle)->runtime();
    address = runtime.torus().address_of(runtime.rank());
    return APELINK_SUCCESS;
  });
  return address;
}
