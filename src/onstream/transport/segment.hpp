// How symmetric memory is made: every rank allocates, offers its part to all, and takes what was offered.
#pragma once

#include <memory>
#include <vector>

#include "onstream/transport/fabric.hpp"
#include "onstream/transport/reach.hpp"

namespace onstream {

class MappedSegment : public Segment {
 public:
  // Collective; `agree` is the fabric's for this segment's topic: memory, or a peer's map, may be missing on one rank.
  template <class Agree>
  MappedSegment(Device& device, Reach& reach, int rank, int size, std::size_t bytes, MemoryKind kind,
                const Agree& agree)
      : rank_(rank), peers_(static_cast<std::size_t>(size)) {
    MemoryInfo info;
    int offered = 0;
    const auto make = [&] {
      memory_ = device.allocate(bytes, kind);
      info = device.inspect(memory_->data());
      for (; offered < size; ++offered) {
        if (offered != rank) (void)reach.offer(info, offered);
      }
      return std::to_string(info.id);
    };
    std::vector<std::string> ids;
    try {
      ids = agree(make);
    } catch (const Error&) {
      for (int peer = 0; peer < offered; ++peer) {
        if (peer != rank) reach.withdraw(info, peer);
      }
      throw;
    }
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank)
        peers_[static_cast<std::size_t>(peer)] = reach.take(peer, std::stoull(ids[static_cast<std::size_t>(peer)]));
    }
  }

  std::byte* local() const override { return memory_->data(); }
  std::byte* peer(int rank) const override {
    return rank == rank_ ? memory_->data() : peers_.at(static_cast<std::size_t>(rank))->data();
  }
  std::size_t bytes() const override { return memory_->bytes(); }

 private:
  std::shared_ptr<Memory> memory_;
  int rank_;
  std::vector<std::shared_ptr<Mapping>> peers_;
};

}  // namespace onstream
