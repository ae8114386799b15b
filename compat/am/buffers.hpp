// Buffers: the registered memory, as its owner keeps it and as the other ranks find it.
//
// The owner asks each peer to map the allocation, or to attach to this process where there is nothing to map, and
// writes the addresses that it got into its mailbox beside the row. So registering needs no call of a peer, and a put
// finds all it needs in the owner's mailbox. Where a peer reaches the memory by neither way, the owner's proxy thread
// copies.
//
// A Visit is a message at a row. As long as it lasts the owner's unregister() does not return. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "mailbox.hpp"
#include "onstream/world.hpp"

namespace onstream::am {

// The facts about a row that a message needs.
struct Target {
  std::size_t row = 0;
  std::uint64_t state = 0;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t context = 0;
  std::uint64_t here = 0;  // this rank's address of its begin, or a remote process address; 0: by the owner's proxy
  bool cpu = false;        // this rank's CPU may touch it there
};

// Moves along with the message.
class Visit {
 public:
  Visit() = default;
  Visit(Row& row, const Target& target, std::shared_ptr<const void> mapping)
      : row_(&row), target_(target), mapping_(std::move(mapping)) {}
  ~Visit() { end(); }
  Visit(Visit&& other) noexcept { *this = std::move(other); }
  Visit& operator=(Visit&& other) noexcept {
    end();
    row_ = std::exchange(other.row_, nullptr);
    target_ = other.target_;
    mapping_ = std::move(other.mapping_);
    return *this;
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  const Target& target() const { return target_; }
  const std::shared_ptr<const void>& mapping() const { return mapping_; }
  void keep(std::shared_ptr<const void> mapping) { mapping_ = std::move(mapping); }

 private:
  void end() {
    if (row_ != nullptr) HostGroup::fetch_add_system(&row_->users, ~std::uint64_t{0});  // pairs with settle()
    row_ = nullptr;
  }
  Row* row_ = nullptr;
  Target target_;
  std::shared_ptr<const void> mapping_;
};

struct Registration {
  am_portid_t port;
  void* buffer;
  std::size_t bytes;
  int type;
};

class Buffers {
 public:
  Buffers(World& world, const Mailbox& mailbox);

  // --- the owner's side ---
  // Throws Refusal.
  void add(const Registration& what, am_context_t context);
  // Throws Refusal: EFAULT if there is no such registration, EBUSY if a message is at it until the deadline; from then
  // on no other message comes to it, and the call may be made again.
  void remove(const Registration& what);
  void remove_all(am_portid_t port) noexcept;
  // Whether some registered buffer lies, with one byte at least, in this memory.
  bool holds(const void* memory, std::size_t bytes);
  // The registration of a streaming buffer ends with its event. Nothing where its link was closed meanwhile: the row
  // may be another buffer's by then. Of `event`: its row and registration, here and below.
  void end_streaming(const Told& event);
  // But not where the send came to nothing: it becomes the last of its port. Throws Refusal, ENOSPACE: it
  // may then be unregistered, and is not used.
  void post_again(const Told& event);

  // --- the sender's side; `rank` is the owner ---
  // The persistent buffer that [address, address + bytes) lies in. Throws Refusal: EFAULT, ERANGE.
  Visit visit(int rank, am_vaddr_t address, std::size_t bytes);
  // The next streaming buffer of the port; nothing: none is posted. Throws Refusal: ETOOLARGE if the message does not
  // fit, EFAULT if its memory is gone; the buffer then stays the next.
  std::optional<Visit> take_streaming(int rank, am_portid_t port, std::size_t bytes);
  bool has_streaming(int rank, am_portid_t port) const;

 private:
  std::size_t free_row() const;
  bool is_used_by(const Told& event) const;  // with the mutex held
  void write(std::size_t number, const Registration& what, am_context_t context);
  void post(std::size_t number, am_portid_t port);
  void make_known(std::size_t number, const Registration& what, const MemoryInfo& info);
  void make_room_for_posting(am_portid_t port);
  // A row that no message comes to any more, and its state from then on.
  struct Barred {
    std::size_t number;
    Row* row;
    std::uint64_t state;
  };
  Barred find_and_bar(const Registration& what);
  // Nothing: a message has just taken the streaming buffer.
  std::optional<Barred> bar(std::size_t number);
  void settle(const std::vector<Barred>& rows);
  std::optional<Target> look(int rank, std::size_t number) const;
  std::optional<Visit> enter(int rank, const Target& target);

  World& world_;
  Fabric& fabric_;
  const Mailbox& mailbox_;
  int rank_;
  bool stage_;        // parameter path: everything through proxies
  std::mutex mutex_;  // guards the rows of this rank
  std::uint64_t registrations_ = 0;
  std::vector<std::shared_ptr<const void>> loans_;    // by row, of buffers that some peer reaches by the proxy alone
  std::vector<std::atomic<std::size_t>> last_found_;  // row, by owner: looked at first
};

}  // namespace onstream::am
