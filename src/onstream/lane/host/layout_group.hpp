// LayoutGroup: the host's group for an op whose buffer lies by a layout. The op's body sees the data without gaps, at
// addresses that no memory has; every copy from or to them goes from or to the layout's places. So a contiguous
// buffer's ops know nothing of layouts, and cost nothing for them.
#pragma once

#include <memory>

#include "onstream/device/host/group.hpp"
#include "onstream/layout/move.hpp"

namespace onstream::lane {

class LayoutGroup : public HostGroup {
 public:
  // A receive takes a message of just the layout's bytes.
  static constexpr bool kExact = true;
  // Where the body finds the data: neither an address of x86-64 nor a remote process address.
  static constexpr std::uint64_t kData = std::uint64_t{1} << 62;

  // Both must outlive the group. `buffer` is written to by receives alone.
  LayoutGroup(const Layout& layout, std::byte* buffer)
      : HostGroup(0, 1), walker_(layout), buffer_(buffer), is_coarse_(usual_run(layout) >= kCoarse) {}

  static std::byte* data() { return reinterpret_cast<std::byte*>(kData); }
  static bool is_data(const void* address) {
    return reinterpret_cast<std::uint64_t>(address) >= kData && !is_remote_process(address);
  }

  void copy_alone(void* destination, const void* source, std::size_t bytes) const {
    if (is_data(destination)) {
      at(destination).write(source, buffer_, bytes);
    } else if (is_data(source)) {
      at(source).read(destination, buffer_, bytes);
    } else {
      HostGroup::copy_alone(destination, source, bytes);
    }
  }
  void copy(void* destination, const void* source, std::size_t bytes) const { copy_alone(destination, source, bytes); }
  void copy(void* destination, const void* source, std::size_t bytes, std::uint32_t, std::uint32_t) const {
    copy_alone(destination, source, bytes);  // a grid of the host's lanes has one block
  }
  void copy(const Flight&, void* destination, const void* source, std::size_t bytes, std::uint32_t,
            std::uint32_t) const {
    copy_alone(destination, source, bytes);
  }

  // From another process the system writes long runs to their places itself. Short ones would cost it more than the
  // copies do: they go by chunks that the cache holds.
  Status carry(void* destination, const void* source, std::size_t bytes) const {
    if (!is_data(destination) && !is_data(source)) return HostGroup::carry(destination, source, bytes);
    const bool writes = is_remote_process(destination);
    if (!writes && !is_remote_process(source)) {
      copy_alone(destination, source, bytes);
      return Status::ok;
    }
    if (!writes && is_coarse_) return carry_stretches(at(destination), source, bytes);
    if (chunk_ == nullptr) chunk_ = std::make_unique_for_overwrite<std::byte[]>(kChunk);
    for (std::size_t done = 0; done < bytes; done += kChunk) {
      const std::size_t now = std::min(kChunk, bytes - done);
      auto* const to = static_cast<std::byte*>(destination) + done;
      const auto* const from = static_cast<const std::byte*>(source) + done;
      if (writes) copy_alone(chunk_.get(), from, now);
      const Status status =
          writes ? HostGroup::carry(to, chunk_.get(), now) : HostGroup::carry(chunk_.get(), from, now);
      if (status != Status::ok) return status;
      if (!writes) copy_alone(to, chunk_.get(), now);
    }
    return Status::ok;
  }

 private:
  static constexpr std::size_t kChunk = 64 * 1024;
  static constexpr std::uint64_t kCoarse = 1024;  // bytes of a run

  Status carry_stretches(LayoutWalker& walker, const void* source, std::size_t bytes) const {
    constexpr std::size_t kMost = 512;
    iovec pieces[kMost];
    const auto* from = static_cast<const std::byte*>(source);
    while (bytes > 0) {
      std::size_t count = 0;
      std::size_t now = 0;
      for (; count < kMost && now < bytes; ++count) {
        const LayoutWalker::Stretch stretch = walker.pass(bytes - now);
        pieces[count] = {buffer_ + stretch.offset, stretch.bytes};
        now += stretch.bytes;
      }
      const Status status = scatter_cross_memory({pieces, count}, from);
      if (status != Status::ok) return status;
      from += now;
      bytes -= now;
    }
    return Status::ok;
  }

  LayoutWalker& at(const void* address) const {
    const std::uint64_t position = reinterpret_cast<std::uint64_t>(address) - kData;
    if (walker_.position() != position) walker_.seek(position);
    return walker_;
  }

  mutable LayoutWalker walker_;
  std::byte* buffer_;
  bool is_coarse_;
  mutable std::unique_ptr<std::byte[]> chunk_;
};
static_assert(Group<LayoutGroup>);

}  // namespace onstream::lane
