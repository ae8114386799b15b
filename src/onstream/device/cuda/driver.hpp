// The driver's functions that the runtime library has no equal for, or a slower one, found at run time, so that a
// program which links onstream starts on a machine without a driver.
#pragma once

#include <cuda.h>

namespace onstream::cuda {

struct Driver {
  decltype(&::cuCtxGetCurrent) ctx_get_current = nullptr;
  decltype(&::cuCtxSetCurrent) ctx_set_current = nullptr;
  decltype(&::cuCtxGetDevice) ctx_get_device = nullptr;
  decltype(&::cuDeviceGet) device_get = nullptr;
  decltype(&::cuDeviceGetAttribute) device_get_attribute = nullptr;
  decltype(&::cuPointerGetAttributes) pointer_get_attributes = nullptr;
  decltype(&::cuPointerGetAttribute) pointer_get_attribute = nullptr;
  decltype(&::cuPointerSetAttribute) pointer_set_attribute = nullptr;
  decltype(&::cuMemGetAllocationGranularity) mem_get_allocation_granularity = nullptr;
  decltype(&::cuMemCreate) mem_create = nullptr;
  decltype(&::cuMemRelease) mem_release = nullptr;
  decltype(&::cuMemAddressReserve) mem_address_reserve = nullptr;
  decltype(&::cuMemAddressFree) mem_address_free = nullptr;
  decltype(&::cuMemMap) mem_map = nullptr;
  decltype(&::cuMemUnmap) mem_unmap = nullptr;
  decltype(&::cuMemSetAccess) mem_set_access = nullptr;
  decltype(&::cuMemExportToShareableHandle) mem_export = nullptr;
  decltype(&::cuMemImportFromShareableHandle) mem_import = nullptr;
  decltype(&::cuStreamBatchMemOp) stream_batch_mem_op = nullptr;
  decltype(&::cuLaunchKernelEx) launch_kernel = nullptr;
  decltype(&::cuFuncLoad) func_load = nullptr;  // null before CUDA 12.4
  decltype(&::cuModuleGetLoadingMode) module_get_loading_mode = nullptr;
  decltype(&::cuGetErrorName) get_error_name = nullptr;
  decltype(&::cuGetErrorString) get_error_string = nullptr;
};

// The table, filled on the first call; any thread. Throws unsupported naming a function that the driver lacks, unless
// the table says when it came.
const Driver& driver();

}  // namespace onstream::cuda
