// Lent: the memory of this rank that its proxy may touch for peers - its parts of segments, memory lent as a window,
// and memory lent to peers that were told the address.
//
// An entry begins before a peer can know of the memory and ends before the memory does. Its end waits until the proxy
// is through with it, so once an entry has ended nothing touches its memory any more; the other entries come and go
// meanwhile. A request names the entry that it means: newer memory at the address of an entry that is gone is not
// mistaken for it. A forked child, which has no proxy, ends none. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "onstream/base/fork_guard.hpp"
#include "onstream/device.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::one_sided {

// The entry that a request means: a segment's, by its number; another, by the number that its owner told; or, 0, the
// entry that the address lies in.
using LentId = std::uint64_t;
constexpr LentId kByAddress = 0;
constexpr LentId id_of_segment(std::uint64_t number) { return 2 * number; }

class Lent : public std::enable_shared_from_this<Lent> {
 public:
  explicit Lent(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  void add(const Segment& segment);
  // Waits while the memory is in use.
  void remove(const Segment& segment);
  // Memory of the program's, which keeps it: lent while the handle lives, whose end waits while the memory is in use.
  struct Loan {
    std::shared_ptr<Lent> lent;
    LentId id;
    Loan(std::shared_ptr<Lent> table, LentId number) : lent(std::move(table)), id(number) {}
    ~Loan() { lent->remove(id); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
  };
  std::shared_ptr<const Loan> lend(const void* address, std::size_t bytes);

  enum class Where { cpu, gpu };  // the processor that can touch it
  // Calls touch(where) while the bytes are sure to be there. Where they are not it gives the reason; else nothing.
  // touch() may take long: a kernel of it waits for room on the GPU.
  template <class Touch>
  std::string use(LentId id, std::uint64_t address, std::size_t bytes, const Touch& touch) {
    const Using found(*this, id, address, bytes);
    if (found.why_not.empty()) touch(found.where);
    return found.why_not;
  }

 private:
  // While it lives the entry does not end, if it was there.
  struct Using {
    Using(Lent& table, LentId id, std::uint64_t address, std::size_t bytes);
    ~Using();
    Using(const Using&) = delete;
    Using& operator=(const Using&) = delete;
    Lent& lent;
    LentId entry = kByAddress;
    Where where = Where::cpu;
    std::string why_not;
  };
  struct LentEntry {
    std::uint64_t begin = 0;
    std::size_t bytes = 0;
    Where where = Where::cpu;
    bool programs = false;         // the program may have freed it
    std::uint64_t allocation = 0;  // MemoryInfo::id of such memory; 0: the system knows whether it is mapped
    bool holds(std::uint64_t address, std::size_t count) const {
      return address >= begin && address - begin <= bytes && count <= bytes - (address - begin);
    }
  };
  void remove(LentId id);
  LentEntry entry_of(const void* address, std::size_t bytes) const;
  using Entries = std::map<LentId, LentEntry>;
  Entries::const_iterator find(LentId id, std::uint64_t address, std::size_t bytes) const;
  bool is_there(const LentEntry& entry, std::uint64_t address, std::size_t bytes) const;
  std::string missing(Entries::const_iterator found, LentId id, std::uint64_t address, std::size_t bytes) const;

  const ForkGuard guard_;
  std::shared_ptr<Device> device_;
  std::mutex mutex_;  // guards the fields below
  Entries entries_;
  std::vector<LentId> in_use_;
  std::condition_variable used_;        // something is in use no more
  std::map<LentId, std::size_t> gone_;  // bytes of the newest entries that have ended, for the texts about them
  std::uint64_t loans_ = 0;
};

}  // namespace onstream::one_sided
