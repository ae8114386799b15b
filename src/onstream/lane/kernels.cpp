#include "onstream/lane/kernels.hpp"

#include <type_traits>

#include "onstream/lane/many.hpp"
#include "onstream/lane/probe.hpp"
#include "onstream/lane/queue_lock.hpp"
#include "onstream/lane/recv.hpp"

namespace onstream::lane {

namespace {

template <class Op>
const LaneView& lane_of(const Op& op) {
  if constexpr (requires { op.common; }) {
    return op.common.lane;
  } else {
    return op.lane;
  }
}

// The host launcher of an op that may have left something for a peer on another host.
template <class Op>
void turning_entry(const void* body, int blocks) {
  Op op;
  std::memcpy(&op, body, sizeof(Op));
  for (int block = 0; block < blocks; ++block) op(HostGroup(block, blocks));
  carry_over(lane_of(op));
}

// The host launcher of a lane's ops. Their grids have one block.
template <class Op>
void locked_entry(const void* body, int) {
  Op op;
  std::memcpy(&op, body, sizeof(Op));
  QueueLock lock(op);
  if (!lock.held()) return end_unlocked(op, lock.status());
  if constexpr (std::is_base_of_v<Send, Op>) {
    op.run(HostGroup(0, 1), [&lock] { lock.unlock(); });
  } else {
    op(HostGroup(0, 1));
  }
  carry_over(lane_of(op));
}

}  // namespace

const Kernel& send_kernel(Send::SendWay way) {
  static const Kernel small{"lane_send_small", locked_entry<Send>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().send_small)};
  static const Kernel spread{"lane_send_spread", nullptr, ONSTREAM_CUDA_ADDRESS(cuda_addresses().send_spread)};
  static const Kernel direct{"lane_send_direct", locked_entry<Send>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().send_direct)};
  static const Kernel posted{"lane_send_posted", locked_entry<Send>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().send_posted)};
  switch (way) {
    case Send::SendWay::small: return small;
    case Send::SendWay::spread: return spread;
    case Send::SendWay::direct: return direct;
    case Send::SendWay::posted: break;
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
  static const Kernel kernel{"lane_receive", locked_entry<Receive>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().receive)};
  return kernel;
}
const Kernel& receive_spread_kernel() {
  static const Kernel kernel{"lane_receive_spread", nullptr, ONSTREAM_CUDA_ADDRESS(cuda_addresses().receive_spread)};
  return kernel;
}
const Kernel& post_kernel() {
  static const Kernel kernel{"lane_post", locked_entry<Post>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().post)};
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
  static const Kernel kernel{"lane_await_receive", turning_entry<AwaitReceive>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().await_receive)};
  return kernel;
}
const Kernel& send_many_kernel() {
  static const Kernel kernel{"lane_send_many", locked_entry<SendMany>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().send_many)};
  return kernel;
}
const Kernel& await_send_many_kernel() {
  static const Kernel kernel{"lane_await_send_many", host_entry<AwaitSendMany>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().await_send_many)};
  return kernel;
}
const Kernel& probe_kernel() {
  static const Kernel kernel{"lane_probe", host_entry<Probe>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().probe)};
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
const Kernel& exchange_few_small_kernel() {
  static const Kernel kernel{"lane_exchange_few_small", nullptr,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().exchange_few_small)};
  return kernel;
}
const Kernel& exchange_many_small_kernel() {
  static const Kernel kernel{"lane_exchange_many_small", nullptr,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().exchange_many_small)};
  return kernel;
}

}  // namespace onstream::lane
