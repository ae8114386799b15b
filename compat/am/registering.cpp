// Memory: allocating it and registering it.
#include "handles.hpp"
#include "refusal.hpp"

using namespace onstream;
using namespace onstream::am;

void* ape_alloc(apelink_t handle, size_t bytes, int where) {
  void* memory = nullptr;
  (void)guarded("ape_alloc", [&] {
    const std::shared_ptr<Link> link = link_of(handle);
    accept_if(where == APE_DEVICE_MEMORY || where == APE_HOST_MEMORY, APELINK_EINVAL, "there is no memory ", where,
              "; it is APE_DEVICE_MEMORY or APE_HOST_MEMORY");
    accept_if(bytes > 0, APELINK_EINVAL, "memory needs at least one byte");
    const MemoryKind kind = where == APE_DEVICE_MEMORY ? MemoryKind::device : MemoryKind::pinned;
    memory = link->runtime().allocate(bytes, kind);
    return APELINK_SUCCESS;
  });
  return memory;
}

int ape_free(apelink_t handle, void* memory) {
  return guarded("ape_free", [&] {
    link_of(handle)->runtime().free(memory);
    return APELINK_SUCCESS;
  });
}

int am_register_buf(apelink_t handle, am_vaddr_t* vaddr, void* buf, size_t size, am_context_t context, int type) {
  return guarded("am_register_buf", [&] {
    const std::shared_ptr<Link> link = link_of(handle);
    accept_if(vaddr != nullptr, APELINK_EINVAL, "the place for the virtual address is null");
    link->runtime().fabric().check();
    link->runtime().buffers().add({link->port(), buf, size, type}, context);
    *vaddr = reinterpret_cast<am_vaddr_t>(buf);
    return APELINK_SUCCESS;
  });
}

int am_unregister_buf(apelink_t handle, am_vaddr_t vaddr, void* buf, size_t size, int type) {
  return guarded("am_unregister_buf", [&] {
    const std::shared_ptr<Link> link = link_of(handle);
    accept_if(vaddr == reinterpret_cast<am_vaddr_t>(buf), APELINK_EINVAL, "the virtual address ", vaddr,
              " is not that of the buffer at ", buf);
    accept_if(type == AM_PERSISTENT_BUF || type == AM_STREAMING_BUF, APELINK_EINVAL, "there is no type ", type,
              "; buffers are AM_PERSISTENT_BUF or AM_STREAMING_BUF");
    link->runtime().buffers().remove({link->port(), buf, size, type});
    return APELINK_SUCCESS;
  });
}
