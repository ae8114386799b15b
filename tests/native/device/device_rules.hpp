// Macros and helpers for the rules of the device contract (device_conformance.cpp, device_streams.cpp,
// device_graphs.cpp, device_words.cpp): a rule `r` gives the cases host_r and cuda_r, and the latter is skipped, with
// the reason, where there is no GPU.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "device_conformance_kernels.hpp"
#include "onstream/device.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"

namespace onstream::test {

inline constexpr std::array kShared = {MemoryKind::device, MemoryKind::pinned, MemoryKind::file};
inline constexpr std::array kAllKinds = {MemoryKind::device, MemoryKind::pinned, MemoryKind::managed, MemoryKind::host,
                                         MemoryKind::file};

// The kind that inspect() reports for memory allocated as `kind`.
constexpr MemoryKind known_as(MemoryKind kind) { return kind == MemoryKind::file ? MemoryKind::pinned : kind; }

inline std::shared_ptr<Device> open_or_skip(const char* spec) {
  if (std::string(spec) == "cuda" && !no_cuda_reason().empty()) SKIP("no cuda device: " + no_cuda_reason());
  return open_device(spec, 0);
}

#define RULE(name)                                   \
  void name(Device& device);                         \
  CASE(host_##name) { name(*open_or_skip("host")); } \
  CASE(cuda_##name) { name(*open_or_skip("cuda")); } \
  void name([[maybe_unused]] Device& device)

inline std::uint64_t* words(const std::shared_ptr<Memory>& memory) {
  return reinterpret_cast<std::uint64_t*>(memory->data());
}

inline std::vector<std::uint64_t> read(Device& device, const void* address, std::size_t count) {
  std::vector<std::uint64_t> out(count, 0xdeadbeef);
  const OwnStream stream(device);
  device.copy(out.data(), address, count * sizeof(std::uint64_t), stream);
  device.synchronize(stream);
  return out;
}

inline std::uint64_t read_word(Device& device, const void* address) { return read(device, address, 1).front(); }

inline bool counts_from(const std::vector<std::uint64_t>& values, std::uint64_t first) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != first + i) return false;
  }
  return true;
}

template <class Body>
void launch_one(Device& device, const Body& body, Stream stream, Grid grid = {1, 32}) {
  launch(device, kernel_of<Body>(), body, grid, stream);
}

// Kernels that spin may only run once everything else is loaded (a GPU loads kernels when first used, and waits for
// running ones).
inline void load_kernels(Device& device) {
  const std::shared_ptr<Memory> memory = device.allocate(4096, MemoryKind::device);
  const OwnStream stream(device);
  std::uint64_t* word = words(memory);
  launch_one(device, Fill{word, 4, 0}, stream);
  launch_one(device, AddOnce{word, 1}, stream);
  launch_one(device, StoreWord{word, 7}, stream);
  launch_one(device, WaitForWord{word, 7, word + 1}, stream);
  std::uint64_t out = 0;
  device.copy(&out, word, sizeof out, stream);
  device.synchronize(stream);
}

// Words in device memory that cases make streams wait with.
struct Gate {
  explicit Gate(Device& opened) : device(opened), memory(opened.allocate(4096, MemoryKind::device)) {
    load_kernels(device);
  }
  std::uint64_t* word() const { return words(memory); }
  std::uint64_t* ended() const { return words(memory) + 16; }
  void close_on(Stream stream) const { launch_one(device, WaitForWord{word(), 1, ended()}, stream); }
  void open_on(Stream stream) const { launch_one(device, StoreWord{word(), 1}, stream); }
  bool passed() const { return read_word(device, ended()) == 1; }

  Device& device;
  std::shared_ptr<Memory> memory;
};

// The values that a host function saw at its calls.
struct Calls {
  const std::uint64_t* value;
  std::vector<std::uint64_t> seen;
};

inline void note(void* calls) {
  auto* all = static_cast<Calls*>(calls);
  all->seen.push_back(*all->value);
}

}  // namespace onstream::test
