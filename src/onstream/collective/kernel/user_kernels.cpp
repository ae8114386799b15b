#include "onstream/collective/kernel/user_kernels.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>

#include "onstream/base/error.hpp"

namespace onstream::collective {

std::string UserKernels::name() const {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? text.get() : mangled;
}

std::string elements_of(const CollectiveCall& call) {
  if (call.user_kernels == nullptr) return concat(call.count, " ", name_of(call.type));
  return concat(call.count / call.element_bytes, " elements of ", call.element_bytes, " B by ",
                call.user_kernels->name());
}

CollectiveCall with_functor(CollectiveCall call, const UserKernels& kernels, const void* functor) {
  require(has_op(call.kind), name_of(call.kind), " reduces nothing, so it takes no reduction of your own");
  require(!call.combine && call.user_kernels == nullptr, name_of(call.kind), " has a reduction of your own already");
  require(call.count <= std::numeric_limits<std::size_t>::max() / kernels.element_bytes, name_of(call.kind), ": ",
          call.count, " elements of ", kernels.element_bytes, " B are more than there are addresses");
  const auto* const bytes = static_cast<const std::byte*>(functor);
  call.user_kernels = &kernels;
  call.user_state.assign(bytes, bytes + kernels.functor_bytes);
  const auto digest_of = [](const void* from, std::size_t length) {
    return std::hash<std::string_view>{}({static_cast<const char*>(from), length});
  };
  std::size_t digest = digest_of(kernels.mangled, std::string_view(kernels.mangled).size());
  digest = digest * 31 + kernels.element_bytes;
  if (kernels.told_by_bytes) digest = digest * 31 + digest_of(functor, kernels.functor_bytes);
  call.user_digest = digest;
  call.element_bytes = kernels.element_bytes;
  call.count *= kernels.element_bytes;
  call.type = ElementType::uint8;
  call.op = ReduceOp::sum;
  return call;
}

}  // namespace onstream::collective
