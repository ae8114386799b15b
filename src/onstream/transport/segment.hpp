// How symmetric memory is made: every rank allocates, offers its part to all, and takes what was offered.
#pragma once

#include <memory>
#include <vector>

#include "onstream/transport/fabric.hpp"
#include "onstream/transport/reach.hpp"

namespace onstream {

class MappedSegment : public Segment {
 public:
  // Collective; `gather` is the fabric's all_gather for this segment's topic.
  template <class Gather>
  MappedSegment(Device& device, Reach& reach, int rank, int size, std::size_t bytes, MemoryKind kind,
                const Gather& gather)
      : memory_(device.allocate(bytes, kind)), rank_(rank), peers_(static_cast<std::size_t>(size)) {
    const MemoryInfo info = device.inspect(memory_->data());
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) (void)reach.offer(info, peer);
    }
    const std::vector<std::string> ids = gather(std::to_string(info.id));
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
