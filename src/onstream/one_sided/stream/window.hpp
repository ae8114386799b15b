// Window: a piece of every rank's memory that all ranks may put to and get from.
//
// A rank's part is memory of its own choice (also none), or its part of a Segment. The window does not own the memory:
// it must live as long as any rank uses the window. A Segment is kept alive.
//
// A part that a peer's kernels cannot address is reached through its owner's proxy thread (proxy.hpp): as long as the
// owner has its Window too. Later use fails the world, with a story that names both ranks and the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onstream/one_sided/proxy/lent_memory.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

class Window {
 public:
  // Collective; every rank names its own part. Throws invalid_argument for a null pointer that is to hold bytes.
  Window(Fabric& fabric, one_sided::Lent& lent, void* address, std::size_t bytes);
  Window(const Fabric& fabric, std::shared_ptr<Segment> segment);
  // Not collective: memory of one rank, `bytes` at `there` in its own address space, as this rank alone has heard of
  // it. `here` is where this rank's kernels address it; 0: they do not, and the owner's proxy must run
  // (OneSided::start_helper) and may touch it (OneSided::lend).
  struct Known {
    int rank;
    std::uint64_t there;
    std::uint64_t here;
    std::size_t bytes;
  };
  Window(const Fabric& fabric, const Known& known);

  int ranks() const { return static_cast<int>(parts_.size()); }
  std::size_t bytes(int rank) const { return part(rank).bytes; }
  // Whether this rank loads and stores that part itself, and if not, why not.
  bool direct(int rank) const { return part(rank).here != 0 || part(rank).bytes == 0; }
  const std::string& why_not(int rank) const { return part(rank).why_not; }
  // Some rank cannot address some other's part. The same answer on every rank.
  bool needs_helper() const { return needs_helper_; }

  // Whose parts these are; 0: no segment's.
  std::uint64_t segment_number() const { return segment_ == nullptr ? 0 : segment_->number(); }
  // The id by which the owner's proxy knows the part.
  one_sided::LentId lent_id(int rank) const { return part(rank).lent_id; }

  // Address of [offset, offset + bytes) of rank's part: as this rank sees it if direct(), else as its owner does.
  // Throws invalid_argument, with the values, if that is not within the part; closed once its segment was freed.
  std::uint64_t at(int rank, std::size_t offset, std::size_t bytes) const;

 private:
  struct Part {
    std::uint64_t bytes = 0;
    std::uint64_t here = 0;   // in this rank's address space; 0: cannot be addressed
    std::uint64_t there = 0;  // in its owner's
    std::string why_not;
    one_sided::LentId lent_id = one_sided::kByAddress;
  };
  const Part& part(int rank) const;
  // Throws invalid_argument with whose parts these are and the joined words, unless `good`.
  void check(bool good, const auto&... why) const;

  std::vector<Part> parts_;
  bool needs_helper_ = false;
  std::shared_ptr<Segment> segment_;
  std::shared_ptr<const one_sided::Lent::Loan> loan_;  // of this rank's part, where some peer needs it
};

}  // namespace onstream
