// The list of devices: GPUs first where CUDA is built and a driver answers, the host always last.
#include "onstream/device.hpp"

#include <optional>
#include <string_view>

#include "onstream/base/error.hpp"
#include "onstream/device/host/attach.hpp"
#include "onstream/device/host/device.hpp"

#ifdef ONSTREAM_WITH_CUDA
#include "onstream/device/cuda/cuda.hpp"
#endif

namespace onstream {
namespace {

#ifdef ONSTREAM_WITH_CUDA
std::vector<DeviceRow> gpus() { return list_cuda(); }
std::string why_no_gpu() { return why_no_cuda(); }
std::shared_ptr<Device> open_gpu(int ordinal) { return open_cuda(ordinal); }
SmallCopies gpu_small_copies() { return cuda_small_copies(); }
std::optional<int> gpu_of_thread() { return current_cuda(); }
#else
std::vector<DeviceRow> gpus() { return {}; }
std::string why_no_gpu() { return "built without CUDA"; }
SmallCopies gpu_small_copies() { return {"none", why_no_gpu()}; }
std::optional<int> gpu_of_thread() { return std::nullopt; }
std::shared_ptr<Device> open_gpu(int) { fail(ErrorCode::unsupported, "no cuda device: ", why_no_gpu()); }
#endif

// The N of "cuda:N", or nothing when `spec` is not of that form.
std::optional<int> ordinal_of(std::string_view spec) {
  constexpr std::string_view kPrefix = "cuda:";
  if (!spec.starts_with(kPrefix)) return std::nullopt;
  const std::optional<int> ordinal = number_in<int>(spec.substr(kPrefix.size()));
  return ordinal.value_or(-1) < 0 ? std::nullopt : ordinal;
}

}  // namespace

std::vector<DeviceRow> list_devices() {
  std::vector<DeviceRow> rows = gpus();
  rows.push_back({DeviceKind::host, 0, host::device_name(), host::memory_bytes()});
  return rows;
}

std::string no_cuda_reason() { return gpus().empty() ? why_no_gpu() : std::string(); }

std::optional<int> current_gpu() { return gpu_of_thread(); }

SmallCopies small_copies_of(DeviceKind kind) {
  if (kind == DeviceKind::host) return host::small_copies();
  return gpus().empty() ? SmallCopies{"none", why_no_gpu()} : gpu_small_copies();
}

std::string no_attach_reason() { return host::no_attach_reason(); }

std::shared_ptr<Device> open_device(const std::string& spec, int local_rank) {
  require(local_rank >= 0, "local_rank is ", local_rank, ", but must not be negative");
  if (spec == "host") return host::open();
  const std::optional<int> ordinal = ordinal_of(spec);
  require(ordinal.has_value() || spec == "cuda" || spec == "auto", "the device '", spec,
          "' is none of: auto, host, cuda, cuda:N");
  const int count = static_cast<int>(gpus().size());
  if (count == 0) {
    if (spec == "auto") return host::open();
    fail(ErrorCode::unsupported, "the device '", spec, "' was asked for, but there is no GPU: ", why_no_gpu(),
         ". Use the device host, or auto.");
  }
  if (ordinal.has_value() && *ordinal >= count) {
    fail(ErrorCode::unsupported, "the device '", spec, "' was asked for, but this machine has ", count,
         " GPUs, numbered from 0");
  }
  return open_gpu(ordinal.value_or(local_rank % count));
}

}  // namespace onstream
