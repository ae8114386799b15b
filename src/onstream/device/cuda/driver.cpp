#include "onstream/device/cuda/driver.hpp"

#include <cuda_runtime_api.h>

#include "onstream/base/error.hpp"
#include "onstream/device/cuda/check.hpp"

namespace onstream::cuda {

namespace {

// Every function in the table had its present signature by then, and newer drivers keep it under this version.
constexpr unsigned kDriverInterface = 12000;

template <class Function>
void find(Function& function, const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion(name, &address, kDriverInterface, cudaEnableDefault, &found),
        "looking up the driver function ", name);
  if (found != cudaDriverEntryPointSuccess || address == nullptr) {
    fail(ErrorCode::unsupported, "the NVIDIA driver has no ", name, "; update the driver");
  }
  function = reinterpret_cast<Function>(address);
}

// A function that came after kDriverInterface; stays null where the driver is older.
template <class Function>
void find_newer(Function& function, const char* name, unsigned version) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t result = cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found);
  if (result != cudaSuccess) forget_error();
  if (result == cudaSuccess && found == cudaDriverEntryPointSuccess) function = reinterpret_cast<Function>(address);
}

Driver load() {
  Driver table;
  find(table.ctx_get_current, "cuCtxGetCurrent");
  find(table.ctx_set_current, "cuCtxSetCurrent");
  find(table.ctx_get_device, "cuCtxGetDevice");
  find(table.device_get, "cuDeviceGet");
  find(table.device_get_attribute, "cuDeviceGetAttribute");
  find(table.pointer_get_attributes, "cuPointerGetAttributes");
  find(table.pointer_get_attribute, "cuPointerGetAttribute");
  find(table.pointer_set_attribute, "cuPointerSetAttribute");
  find(table.mem_get_allocation_granularity, "cuMemGetAllocationGranularity");
  find(table.mem_create, "cuMemCreate");
  find(table.mem_release, "cuMemRelease");
  find(table.mem_address_reserve, "cuMemAddressReserve");
  find(table.mem_address_free, "cuMemAddressFree");
  find(table.mem_map, "cuMemMap");
  find(table.mem_unmap, "cuMemUnmap");
  find(table.mem_set_access, "cuMemSetAccess");
  find(table.mem_export, "cuMemExportToShareableHandle");
  find(table.mem_import, "cuMemImportFromShareableHandle");
  find(table.stream_batch_mem_op, "cuStreamBatchMemOp");
  find(table.launch_kernel, "cuLaunchKernelEx");
  find_newer(table.func_load, "cuFuncLoad", 12040);
  find(table.module_get_loading_mode, "cuModuleGetLoadingMode");
  find(table.get_error_name, "cuGetErrorName");
  find(table.get_error_string, "cuGetErrorString");
  return table;
}

}  // namespace

const Driver& driver() {
  static const Driver table = load();
  return table;
}

std::string text_of(cudaError_t result) { return concat(cudaGetErrorName(result), ": ", cudaGetErrorString(result)); }

std::string text_of(CUresult result) {
  const char* name = nullptr;
  const char* words = nullptr;
  if (driver().get_error_name(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return concat("driver error ", static_cast<int>(result));
  }
  if (driver().get_error_string(result, &words) != CUDA_SUCCESS || words == nullptr) words = "no description";
  return concat(name, ": ", words);
}

}  // namespace onstream::cuda
