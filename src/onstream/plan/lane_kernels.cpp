#include "onstream/plan/lane_kernels.hpp"

#include "onstream/plan/lane_recv.hpp"
#include "onstream/plan/lane_send.hpp"

namespace onstream::lane {

#ifdef ONSTREAM_WITH_CUDA
#define ONSTREAM_CUDA_ADDRESS(name) cuda_addresses().name
#else
#define ONSTREAM_CUDA_ADDRESS(name) nullptr
#endif

const Kernel& send_kernel() {
  static const Kernel kernel{"lane_send", host_entry<Send>, ONSTREAM_CUDA_ADDRESS(send)};
  return kernel;
}
const Kernel& await_send_kernel() {
  static const Kernel kernel{"lane_await_send", host_entry<AwaitSend>, ONSTREAM_CUDA_ADDRESS(await_send)};
  return kernel;
}
const Kernel& receive_kernel() {
  static const Kernel kernel{"lane_receive", host_entry<Receive>, ONSTREAM_CUDA_ADDRESS(receive)};
  return kernel;
}
const Kernel& post_kernel() {
  static const Kernel kernel{"lane_post", host_entry<Post>, ONSTREAM_CUDA_ADDRESS(post)};
  return kernel;
}
const Kernel& reopen_kernel() {
  static const Kernel kernel{"lane_reopen", host_entry<Reopen>, ONSTREAM_CUDA_ADDRESS(reopen)};
  return kernel;
}
const Kernel& await_receive_kernel() {
  static const Kernel kernel{"lane_await_receive", host_entry<AwaitReceive>, ONSTREAM_CUDA_ADDRESS(await_receive)};
  return kernel;
}

}  // namespace onstream::lane
