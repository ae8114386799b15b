#include "onstream/lane/kernels.hpp"

#include "onstream/device/cuda/entry.cuh"
#include "onstream/lane/many.hpp"
#include "onstream/lane/probe.hpp"
#include "onstream/lane/send_receive.hpp"

namespace onstream::lane {

LaneKernelAddresses cuda_addresses() {
  return {reinterpret_cast<const void*>(&cuda_entry<SendSmall>),
          reinterpret_cast<const void*>(&cuda_entry<SendSpread>),
          reinterpret_cast<const void*>(&cuda_entry<SendDirect>),
          reinterpret_cast<const void*>(&cuda_entry<SendPosted>),
          reinterpret_cast<const void*>(&cuda_entry<AwaitSend>),
          reinterpret_cast<const void*>(&cuda_entry<AwaitLargeSend>),
          reinterpret_cast<const void*>(&cuda_entry<Receive>),
          reinterpret_cast<const void*>(&cuda_entry<ReceiveSpread>),
          reinterpret_cast<const void*>(&cuda_entry<Post>),
          reinterpret_cast<const void*>(&cuda_entry<Deliver>),
          reinterpret_cast<const void*>(&cuda_entry<Reopen>),
          reinterpret_cast<const void*>(&cuda_entry<AwaitReceive>),
          reinterpret_cast<const void*>(&cuda_entry<SendMany>),
          reinterpret_cast<const void*>(&cuda_entry<AwaitSendMany>),
          reinterpret_cast<const void*>(&cuda_entry<Probe>),
          reinterpret_cast<const void*>(&cuda_entry<SendReceive>),
          reinterpret_cast<const void*>(&cuda_entry<ExchangeMany<kFew>>),
          reinterpret_cast<const void*>(&cuda_entry<ExchangeMany<kMany>>),
          reinterpret_cast<const void*>(&cuda_entry<ExchangeSmall<kFew>>),
          reinterpret_cast<const void*>(&cuda_entry<ExchangeSmall<kMany>>)};
}

}  // namespace onstream::lane
