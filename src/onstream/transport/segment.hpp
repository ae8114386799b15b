// How symmetric memory is made: every rank allocates, offers its part to all, tells how that went, and takes the parts
// offered to it.
//
// The memory, and a mapping of every peer's part, live until release() or the last handle's end. A rank that has no
// memory, or that a peer cannot map where it must, fails the making on every rank alike.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "onstream/device/export.hpp"

#include "onstream/transport/fabric.hpp"
#include "onstream/transport/hosts.hpp"
#include "onstream/transport/peer_mapping.hpp"

namespace onstream {

// The arguments of a segment's construction.
struct SegmentMaker {
  Device& device;
  PeerMapping& peer_mapping;
  const Hosts& hosts;
  int rank;
  int size;
  std::uint64_t number;
  std::string unmapped_why;  // not empty: no peer is to map anything, and why
  Mapped mapped;
  std::shared_ptr<std::atomic<std::size_t>> device_bytes;  // the account
};

class MappedSegment : public Segment {
 public:
  // The fabric's, for this segment: memory, or a peer's map, may be missing on one rank.
  using Agree = std::function<std::vector<std::string>(const std::function<std::string()>&)>;

  // Collective.
  MappedSegment(const SegmentMaker& maker, std::size_t bytes, MemoryKind kind, const Agree& agree);
  ~MappedSegment() override;
  MappedSegment(const MappedSegment&) = delete;
  MappedSegment& operator=(const MappedSegment&) = delete;

  std::byte* local() const override { return peer(rank_); }
  std::byte* peer(int rank) const override;
  std::uint64_t address_at(int rank) const override;
  bool direct(int rank) const override { return !freed() && part(rank).here != nullptr; }
  const std::string& why_not(int rank) const override { return part(rank).why_not; }
  bool direct_everywhere() const override { return direct_everywhere_; }
  std::size_t bytes() const override { return bytes_; }
  MemoryKind kind() const override { return kind_; }
  std::uint64_t number() const override { return number_; }

  void check_launch() const override;  // closed once it was freed

  bool freed() const { return freed_.load(std::memory_order_acquire); }
  // Lets memory and mappings go. No op may use them any more.
  void release();

 private:
  struct PeerPart {
    std::byte* here = nullptr;
    std::uint64_t there = 0;
    std::shared_ptr<Mapping> mapping;
    std::string why_not;
  };
  const PeerPart& part(int rank) const;
  void take_part(const SegmentMaker& maker, int rank, const std::string& notices);

  std::size_t bytes_;
  MemoryKind kind_;
  int rank_;
  std::uint64_t number_;
  std::shared_ptr<std::atomic<std::size_t>> device_bytes_;
  std::shared_ptr<Memory> memory_;
  std::vector<PeerPart> parts_;
  bool direct_everywhere_ = true;
  std::atomic<bool> freed_ = false;
};

// The living segments of a world.
class Segments {
 public:
  void add(const std::shared_ptr<Segment>& segment);
  // Looks in this rank's own memory. For any thread: it lets go of no segment, which may wait for kernels.
  WordPlace place_of(const void* word) const;
  // The one in whose part of `peer`, as this rank addresses it, [address, address + bytes) lies; or null.
  std::shared_ptr<Segment> of(int peer, const void* address, std::size_t bytes) const;
  // The one that holds `address` in its part of any of so many ranks; or null.
  std::shared_ptr<Segment> of_any(int ranks, const void* address) const;
  std::shared_ptr<Segment> numbered(std::uint64_t number) const;  // or null

 private:
  std::vector<std::shared_ptr<Segment>> living() const;

  struct KnownSegment {
    std::weak_ptr<Segment> segment;
    std::uint64_t begin;  // of this rank's part
    std::uint64_t bytes;
  };
  mutable std::mutex mutex_;
  std::vector<KnownSegment> segments_;
};

}  // namespace onstream
