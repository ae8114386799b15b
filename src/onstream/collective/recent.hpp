// Recent: what the newest calls of a channel came to. A solver asks for the same reduction again and again; nothing of
// it is checked, chosen or prepared twice but what lies at its addresses, as memory comes and goes.
//
// For calls by flagged lines, which ask no peer for its addresses. Plain host memory that a call has had is not looked
// at again: that would take a call of the system.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

#include "onstream/collective/call.hpp"
#include "onstream/device/device.hpp"

namespace onstream::collective {

struct Prepared;

class Recent {
 public:
  // Null: the call is not among them, or other memory is where its buffers were.
  std::shared_ptr<const Prepared> find(const CollectiveCall& call, const Device& device) const;
  // A call that has been checked, on a rank whose buffers of it hold so many bytes. Forgets an older one for it, or
  // does nothing if it is of a kind that is not kept.
  void keep(const CollectiveCall& call, std::array<std::size_t, 2> bytes, const Device& device,
            std::shared_ptr<const Prepared> work);

 private:
  struct Buffer {
    const void* address = nullptr;  // null: does not matter
    MemoryInfo info;
    bool is_still(const Device& device) const { return address == nullptr || device.inspect(address) == info; }
  };
  struct Entry {
    CollectiveCall call;
    std::array<Buffer, 2> buffers;
    std::shared_ptr<const Prepared> work;
  };
  static constexpr std::size_t kEntries = 8;
  static std::size_t place_of(const CollectiveCall& call);

  mutable std::mutex mutex_;
  std::array<Entry, kEntries> entries_;  // each call has one place
};

}  // namespace onstream::collective
