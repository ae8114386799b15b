// The one list of devices, and how a rank gets its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onstream/device/device.hpp"

namespace onstream {

struct DeviceRow {
  DeviceKind kind;
  int index;
  std::string name;
  std::uint64_t memory_bytes;
};

// Every device of this machine, GPUs first; the host device is always there. Never throws: without a driver or without
// CUDA in the build there are simply no GPUs (no_cuda_reason() says why).
std::vector<DeviceRow> list_devices();

// Why cuda devices are absent: "built without CUDA", "no driver", ... Empty when there are some.
std::string no_cuda_reason();

// The GPU that the calling thread has made current (cudaSetDevice), 0 if none; nothing where there are no GPUs.
std::optional<int> current_gpu();

// How small copies from the CPU to kernels work on devices of a kind, without opening one.
SmallCopies small_copies_of(DeviceKind kind);

// Why no process of this machine can copy from another's plain memory (device/kernel/foreign.hpp); empty if it may
// work.
std::string no_attach_reason();

// Opens the device that `spec` names: "host", "cuda:N", "cuda" (GPU number local_rank modulo their count), or "auto"
// (cuda if there are GPUs, else host). Throws unsupported with no_cuda_reason().
std::shared_ptr<Device> open_device(const std::string& spec, int local_rank);

}  // namespace onstream
