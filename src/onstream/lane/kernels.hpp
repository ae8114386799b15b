// The kernels of eager messages: the bodies of send.hpp, await_send.hpp, recv.hpp, send_receive.hpp, many.hpp and
// probe.hpp, ready to launch on any device.
#pragma once

#include "onstream/device.hpp"
#include "onstream/lane/send.hpp"

namespace onstream::lane {

// Each takes the body of the same name as its argument.
const Kernel& send_kernel(Send::SendWay way);
const Kernel& await_send_kernel();
const Kernel& await_large_send_kernel();
const Kernel& receive_kernel();
const Kernel& receive_spread_kernel();
const Kernel& post_kernel();
const Kernel& deliver_kernel();
const Kernel& reopen_kernel();
const Kernel& await_receive_kernel();
const Kernel& send_many_kernel();
const Kernel& await_send_many_kernel();
const Kernel& probe_kernel();
const Kernel& exchange_kernel();       // cuda only, as the next four and the spread ones
const Kernel& exchange_few_kernel();   // ExchangeMany<kFew>
const Kernel& exchange_many_kernel();  // ExchangeMany<kMany>
const Kernel& exchange_few_small_kernel();
const Kernel& exchange_many_small_kernel();

#ifdef ONSTREAM_WITH_CUDA
// Addresses of the __global__ functions, in the order above; kernels.cu.
struct LaneKernelAddresses {
  const void* send_small;
  const void* send_spread;
  const void* send_direct;
  const void* send_posted;
  const void* await_send;
  const void* await_large_send;
  const void* receive;
  const void* receive_spread;
  const void* post;
  const void* deliver;
  const void* reopen;
  const void* await_receive;
  const void* send_many;
  const void* await_send_many;
  const void* probe;
  const void* exchange;
  const void* exchange_few;
  const void* exchange_many;
  const void* exchange_few_small;
  const void* exchange_many_small;
};
LaneKernelAddresses cuda_addresses();
#endif

}  // namespace onstream::lane
