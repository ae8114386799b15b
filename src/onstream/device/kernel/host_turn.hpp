// Work that a waiting thread of the host does meanwhile: it moves the network along, so that no other thread has to
// wake up for the message that it waits for. A world without a network has none. The kernels of a GPU never see one.
#pragma once

#include <cstdint>

namespace onstream {

struct HostTurn {
  bool (*move)(void* context) = nullptr;  // true if anything happened
  void (*nap)(void* context, std::uint64_t at_most_ns) = nullptr;
  void* context = nullptr;
};

// Where a board keeps its address: so many words behind its awake words (wait.hpp).
constexpr int kHostTurnWord = 2;

}  // namespace onstream
