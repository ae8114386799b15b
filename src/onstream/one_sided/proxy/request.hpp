// What a rank asks of the proxy of another (proxy.hpp).
#pragma once

#include <cstdint>

#include "onstream/one_sided.hpp"
#include "onstream/one_sided/proxy/lent_memory.hpp"

namespace onstream::one_sided {

enum class ProxyWork : std::uint64_t { none = 0, put, get, store, add, atomic };

// Written by the asking rank; `work` last, and cleared by the target.
struct alignas(64) ProxyRequest {
  std::uint64_t work = 0;     // asked() for
  std::uint64_t address = 0;  // in the target's address space
  std::uint64_t bytes = 0;    // of a put or get; the width of a store or add; packed() of an atomic
  std::uint64_t value = 0;    // of a store, add or atomic
};

// A ProxyWork, and the entry of the target's Lent that it is for: one word, as the cost of a request is its words.
constexpr std::uint64_t asked(ProxyWork work, LentId id) { return id << 8 | static_cast<std::uint64_t>(work); }
constexpr ProxyWork work_of(std::uint64_t asked) { return static_cast<ProxyWork>(asked & 0xff); }
constexpr LentId lent_of(std::uint64_t asked) { return asked >> 8; }

// An atomic's op and width. Its expected value comes, and its old value goes, where bytes do.
constexpr std::uint64_t packed(AtomicOp op, std::size_t width) { return static_cast<std::uint64_t>(op) << 8 | width; }
constexpr AtomicOp op_of(std::uint64_t packed) { return static_cast<AtomicOp>(packed >> 8); }
constexpr std::uint8_t width_of(std::uint64_t packed) { return static_cast<std::uint8_t>(packed); }

// The bytes beside the request, on the way to the target and on the way back.
struct BytesBeside {
  std::uint64_t there = 0;
  std::uint64_t back = 0;
};
constexpr BytesBeside beside(const ProxyRequest& request) {
  switch (work_of(request.work)) {
    case ProxyWork::put: return {request.bytes, 0};
    case ProxyWork::get: return {0, request.bytes};
    case ProxyWork::atomic: return {width_of(request.bytes), width_of(request.bytes)};
    default: return {};
  }
}

}  // namespace onstream::one_sided
