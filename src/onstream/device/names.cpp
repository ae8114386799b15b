// Words for the enumerations of the device contract, and the calls that a device refuses unless it overrides them.
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/text.hpp"
#include "onstream/device.hpp"
#include "onstream/device/export.hpp"
#include "onstream/device/kernel/atomics.hpp"
#include "onstream/device/kernel/compare.hpp"

namespace onstream {

namespace {

constexpr std::pair<const char*, AtomicOp> kAtomicOps[] = {
    {"fetch", AtomicOp::fetch}, {"set", AtomicOp::set},
    {"add", AtomicOp::add},     {"and", AtomicOp::bit_and},
    {"or", AtomicOp::bit_or},   {"xor", AtomicOp::bit_xor},
    {"swap", AtomicOp::swap},   {"compare_swap", AtomicOp::compare_swap}};

}  // namespace

const char* name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::host: return "host";
    case DeviceKind::cuda: return "cuda";
  }
  return "unknown";
}

const char* name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::device: return "device";
    case MemoryKind::pinned: return "pinned";
    case MemoryKind::managed: return "managed";
    case MemoryKind::host: return "host";
    case MemoryKind::file: return "file";
  }
  return "unknown";
}

const char* name_of(Compare compare) {
  switch (compare) {
    case Compare::eq: return "eq";
    case Compare::ne: return "ne";
    case Compare::gt: return "gt";
    case Compare::ge: return "ge";
    case Compare::lt: return "lt";
    case Compare::le: return "le";
    case Compare::reached: return "reached";
    case Compare::any_bit: return "any_bit";
  }
  return "unknown";
}

std::string condition_of(const Until& until) {
  const bool narrow = until.width == sizeof(std::uint32_t);
  const auto whole = static_cast<std::int64_t>(until.value);
  const std::int64_t is_signed = narrow ? static_cast<std::int32_t>(until.value) : whole;
  const std::uint64_t is_unsigned = narrow ? static_cast<std::uint32_t>(until.value) : until.value;
  const std::string value = until.sign == Sign::signed_word ? concat(is_signed) : concat(is_unsigned);
  const auto how = [&] {
    switch (until.compare) {
      case Compare::eq: return "to be ";
      case Compare::ne: return "not to be ";
      case Compare::gt: return "to be above ";
      case Compare::ge: return "to be at least ";
      case Compare::lt: return "to be below ";
      case Compare::le: return "to be at most ";
      case Compare::reached: return "to reach ";
      case Compare::any_bit: return "to have a bit of ";
    }
    return "to compare with ";
  };
  return how() + value;
}

std::string text_of(const Until& until) { return concat("a word of ", until.width, " B ", condition_of(until)); }

const char* name_of(AtomicOp op) {
  for (const auto& [word, one] : kAtomicOps) {
    if (one == op) return word;
  }
  return "unknown";
}

AtomicOp atomic_op_from(const std::string& name) {
  for (const auto& [word, op] : kAtomicOps) {
    if (name == word) return op;
  }
  fail(ErrorCode::invalid_argument, "op='", name, "' is none of fetch, set, add, and, or, xor, swap, compare_swap");
}

std::optional<ProcessRecord> Device::process_record() { return std::nullopt; }

std::shared_ptr<Attachment> Device::attach(const ProcessRecord& record, pid_t /*pid*/) {
  fail(ErrorCode::unsupported, "kernels of the ", name_of(kind()), " device cannot reach the plain memory of process ",
       record.pid);
}

}  // namespace onstream
