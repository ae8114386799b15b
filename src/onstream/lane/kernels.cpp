#include "onstream/lane/kernels.hpp"

#include "onstream/lane/many.hpp"
#include "onstream/lane/recv.hpp"

namespace onstream::lane {

const Kernel& send_kernel(Send::Way way) {
  static const Kernel small{"lane_send_small", host_entry<SendSmall>,
                            ONSTREAM_CUDA_ADDRESS(cuda_addresses().send_small)};
  static const Kernel spread{"lane_send_spread", nullptr, ONSTREAM_CUDA_ADDRESS(cuda_addresses().send_spread)};
  static const Kernel direct{"lane_send_direct", host_entry<SendDirect>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().send_direct)};
  static const Kernel posted{"lane_send_posted", host_entry<SendPosted>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().send_posted)};
  switch (way) {
    case Send::Way::small: return small;
    case Send::Way::spread: return spread;
    case Send::Way::direct: return direct;
    case Send::Way::posted: break;
  }
  return posted;
}
const Kernel& await_send_kernel() {
  static const Kernel kernel{"lane_await_send", host_entry<AwaitSend>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().await_send)};
  return kernel;
}
const Kernel& await_large_send_kernel() {
  static const Kernel kernel{"lane_await_large_send", host_entry<AwaitLargeSend>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().await_large_send)};
  return kernel;
}
const Kernel& receive_kernel() {
  static const Kernel kernel{"lane_receive", host_entry<Receive>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().receive)};
  return kernel;
}
const Kernel& receive_spread_kernel() {
  static const Kernel kernel{"lane_receive_spread", nullptr, ONSTREAM_CUDA_ADDRESS(cuda_addresses().receive_spread)};
  return kernel;
}
const Kernel& post_kernel() {
  static const Kernel kernel{"lane_post", host_entry<Post>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().post)};
  return kernel;
}
const Kernel& deliver_kernel() {
  static const Kernel kernel{"lane_deliver", host_entry<Deliver>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().deliver)};
  return kernel;
}
const Kernel& reopen_kernel() {
  static const Kernel kernel{"lane_reopen", host_entry<Reopen>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().reopen)};
  return kernel;
}
const Kernel& await_receive_kernel() {
  static const Kernel kernel{"lane_await_receive", host_entry<AwaitReceive>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().await_receive)};
  return kernel;
}
const Kernel& send_many_kernel() {
  static const Kernel kernel{"lane_send_many", host_entry<SendMany>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().send_many)};
  return kernel;
}
const Kernel& await_send_many_kernel() {
  static const Kernel kernel{"lane_await_send_many", host_entry<AwaitSendMany>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().await_send_many)};
  return kernel;
}
const Kernel& exchange_kernel() {
  static const Kernel kernel{"lane_exchange", nullptr, ONSTREAM_CUDA_ADDRESS(cuda_addresses().exchange)};
  return kernel;
}
const Kernel& exchange_few_kernel() {
  static const Kernel kernel{"lane_exchange_few", nullptr, ONSTREAM_CUDA_ADDRESS(cuda_addresses().exchange_few)};
  return kernel;
}
const Kernel& exchange_many_kernel() {
  static const Kernel kernel{"lane_exchange_many", nullptr, ONSTREAM_CUDA_ADDRESS(cuda_addresses().exchange_many)};
  return kernel;
}

}  // namespace onstream::lane
