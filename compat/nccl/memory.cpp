// Memory: allocated for the thread's current GPU, and registered with communicators.
//
// A buffer needs no registration: the first op with it does the same. So registering one is never wrong, and may save
// that op the time; a buffer that peers cannot address is registered all the same, and goes through the stage.
#include <map>

#include "comm.hpp"
#include "group.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/device.hpp"

using namespace onstream;
using namespace onstream::nccl;

namespace {

struct Allocations {
  std::mutex mutex;
  std::map<int, std::shared_ptr<Device>> devices;  // by GPU; -1: the host device
  std::map<void*, std::shared_ptr<Memory>> memory;
};

Allocations& allocations() {
  static auto* const of_process = new Allocations;  // never destroyed: programs free in destructors of their statics
  return *of_process;
}

std::shared_ptr<Device> device_of(Allocations& all, int gpu) {
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<Device>& device = all.devices[gpu];
  if (device == nullptr) device = open_device(gpu < 0 ? "host" : concat("cuda:", gpu), 0);
  return device;
}

void make_known(const ncclComm& comm, const void* buffer, std::size_t bytes) {
  try {
    comm.world->register_memory(buffer, bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    log(LogLevel::debug, "registered, but not addressable by all ranks: ", error.what());
  }
}

// A handle that is no address of the program's, and never was one of another registration.
const void* new_handle() {
  static std::atomic<std::uintptr_t> last = 0;
  constexpr std::uintptr_t kStep = 16;
  return reinterpret_cast<const void*>(last.fetch_add(kStep, std::memory_order_relaxed) + kStep);
}

void* enter(ncclComm_t handle, void* buffer, std::size_t bytes) {
  ncclComm& comm = ready(handle);
  const Inside inside(comm);
  demand(buffer != nullptr && bytes > 0, bytes, " B at ", buffer, " cannot be registered");
  make_known(comm, buffer, bytes);
  const std::lock_guard lock(comm.mutex);
  const void* const made = new_handle();
  comm.registered.insert(made);
  return const_cast<void*>(made);
}

void remove(ncclComm_t handle, const void* registered) {
  ncclComm& comm = known(handle);
  const std::lock_guard lock(comm.mutex);
  demand(comm.registered.erase(registered) == 1, "the handle ", registered,
         " is none of this communicator's, or was deregistered before");
}

}  // namespace

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  return guarded(__func__, nullptr, [&] {
    demand(memory != nullptr, "there is no place for the pointer");
    *memory = nullptr;
    demand(bytes > 0, "there is no memory of 0 B");
    Allocations& all = allocations();
    const std::shared_ptr<Device> device = device_of(all, current_gpu().value_or(-1));
    std::shared_ptr<Memory> made = device->allocate(bytes, MemoryKind::device);
    const std::lock_guard lock(all.mutex);
    *memory = made->data();
    all.memory[*memory] = std::move(made);
    return ncclSuccess;
  });
}

ncclResult_t ncclMemFree(void* memory) {
  return guarded(__func__, nullptr, [&] {
    if (memory == nullptr) return ncclSuccess;
    Allocations& all = allocations();
    std::unique_lock lock(all.mutex);
    const auto freed = all.memory.extract(memory);
    lock.unlock();
    demand(!freed.empty(), memory, " was not allocated by ncclMemAlloc, or was freed before");
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  return guarded(__func__, comm, [&] {
    demand(handle != nullptr, "there is no place for the handle");
    *handle = enter(comm, buffer, bytes);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return guarded(__func__, comm, [&] {
    remove(comm, handle);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window, int flags) {
  return guarded(__func__, comm, [&] {
    demand(window != nullptr, "there is no place for the window");
    demand((flags & ~NCCL_WIN_COLL_SYMMETRIC) == 0, "the flags ", flags,
           " are none of NCCL_WIN_DEFAULT and NCCL_WIN_COLL_SYMMETRIC");
    *window = static_cast<ncclWindow_t>(enter(comm, buffer, bytes));
    return ncclSuccess;
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return guarded(__func__, comm, [&] {
    remove(comm, window);
    return ncclSuccess;
  });
}

ONSTREAM_NCCL_TWIN(ncclMemAlloc);
ONSTREAM_NCCL_TWIN(ncclMemFree);
ONSTREAM_NCCL_TWIN(ncclCommRegister);
ONSTREAM_NCCL_TWIN(ncclCommDeregister);
ONSTREAM_NCCL_TWIN(ncclCommWindowRegister);
ONSTREAM_NCCL_TWIN(ncclCommWindowDeregister);
