// The tasks that a host stream executes: small values, copied when enqueued. A task may run any number of times (a
// graph replays its tasks), so run() changes nothing in it.
//
// Tasks own copies of kernel arguments and share ownership of the events and graphs that they use; the memory that a
// copy touches is the caller's.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <variant>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/device/host/event.hpp"

namespace onstream::host {

class HostGraph;

// The bytes of a kernel's argument struct. Those of the library's own kernels fit inline, without an allocation.
class Arguments {
 public:
  Arguments(const void* source, std::size_t bytes) {
    if (bytes > kInline) large_ = std::make_unique<std::byte[]>(bytes);
    if (bytes > 0) std::memcpy(large_ ? large_.get() : inline_.data(), source, bytes);
  }
  const std::byte* data() const { return large_ ? large_.get() : inline_.data(); }

 private:
  static constexpr std::size_t kInline = 512;
  std::unique_ptr<std::byte[]> large_;
  std::array<std::byte, kInline> inline_;  // not initialized: only the first bytes are ever read
};

struct KernelTask {
  void (*entry)(const void* body, int blocks);
  int blocks;
  Arguments arguments;
  void run() const { entry(arguments.data(), blocks); }
};

struct CopyTask {
  void* destination;
  const void* source;
  std::size_t bytes;
  void run() const { std::memcpy(destination, source, bytes); }
};

struct CallTask {
  void (*function)(void*);
  void* argument;
  void run() const { function(argument); }
};

struct WordTask {
  std::shared_ptr<const std::vector<WordOp>> ops;
  void run() const;  // words.cpp
};

struct RecordTask {
  std::shared_ptr<HostEvent> event;
  void run() const { event->set(); }
};

struct WaitTask {
  std::shared_ptr<const HostEvent> event;
  void run() const { event->wait(); }
};

struct GraphTask {
  std::shared_ptr<const HostGraph> graph;
  void run() const;  // graph.cpp
};

// monostate: an empty place in a queue.
using Task = std::variant<std::monostate, KernelTask, CopyTask, CallTask, WordTask, RecordTask, WaitTask, GraphTask>;

// Ends the process if the task throws, as a kernel or a user's host function has nobody to throw to.
inline void run(const Task& task) noexcept {
  std::visit(
      [](const auto& each) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(each)>, std::monostate>) each.run();
      },
      task);
}

}  // namespace onstream::host
