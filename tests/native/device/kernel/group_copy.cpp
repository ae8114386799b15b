// Group::copy and Group::copy_alone move exactly the bytes asked for, at every alignment of both sides.
#include <memory>
#include <string>
#include <vector>

#include "group_copy_kernels.hpp"
#include "onstream/device.hpp"
#include "onstream/device/host/group.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

std::shared_ptr<Device> open_or_skip(const char* spec) {
  if (std::string(spec) == "cuda" && !no_cuda_reason().empty()) SKIP("no cuda device: " + no_cuda_reason());
  return open_device(spec, 0);
}

std::byte pattern(std::size_t i) { return static_cast<std::byte>((i * 167 + i / 256 * 13 + 1) & 0xff); }

constexpr std::byte kUntouched{0xee};
constexpr std::size_t kMargin = 64;  // before and behind the destination

// A source full of the pattern and a destination, both of the device, and a stream.
class Bench {
 public:
  Bench(Device& device, std::size_t most)
      : device_(device),
        room_(most + 3 * kMargin),
        source_(device.allocate(room_, MemoryKind::device)),
        destination_(device.allocate(room_, MemoryKind::device)),
        expected_(room_),
        blank_(room_, kUntouched),
        got_(room_),
        stream_(device.create_stream()) {
    for (std::size_t i = 0; i < room_; ++i) expected_[i] = pattern(i);
    device_.copy(source_->data(), expected_.data(), room_, stream_);
  }
  ~Bench() { device_.destroy_stream(stream_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Copies `bytes` to `to` bytes behind the margin from `from`; tells whether these and no others changed, rightly.
  template <class Body>
  bool exact(std::size_t to, std::size_t from, std::size_t bytes, Grid grid) {
    device_.copy(destination_->data(), blank_.data(), room_, stream_);
    const Kernel kernel{"copy", &host_entry<Body>, copy_entry<Body>()};
    launch(device_, kernel, Body{destination_->data() + kMargin + to, source_->data() + from, bytes}, grid, stream_);
    device_.copy(got_.data(), destination_->data(), room_, stream_);
    device_.synchronize(stream_);
    for (std::size_t i = 0; i < room_; ++i) {
      const bool inside = i >= kMargin + to && i < kMargin + to + bytes;
      if (got_[i] != (inside ? expected_[i - kMargin - to + from] : kUntouched)) return false;
    }
    return true;
  }

 private:
  Device& device_;
  std::size_t room_;
  std::shared_ptr<Memory> source_;
  std::shared_ptr<Memory> destination_;
  std::vector<std::byte> expected_;
  std::vector<std::byte> blank_;
  std::vector<std::byte> got_;
  Stream stream_;
};

void every_alignment_is_exact(Device& device) {
  Bench bench(device, 1000);
  for (std::size_t to = 0; to < 16; ++to) {
    for (std::size_t from = 0; from < 16; ++from) {
      for (const std::size_t bytes : {0u, 1u, 3u, 15u, 16u, 17u, 100u, 999u}) {
        CHECK(bench.exact<CopyByGrid>(to, from, bytes, {2, 32}));
      }
      CHECK(bench.exact<CopyAlone>(to, from, 777, {2, 32}));
    }
  }
}

void every_grid_is_exact(Device& device) {
  constexpr std::size_t kBytes = 1'000'003;
  Bench bench(device, kBytes);
  for (const Grid grid : {Grid{1, 1}, Grid{1, 512}, Grid{3, 96}, Grid{7, 512}, Grid{64, 512}}) {
    for (const std::size_t shift : {0u, 1u, 4u, 8u}) {
      CHECK(bench.exact<CopyByGrid>(shift, 0, kBytes, grid));
      CHECK(bench.exact<CopyAlone>(0, shift, kBytes, grid));
    }
    // Around whole flights of accesses: one word more or less than all threads move at once.
    const std::size_t flight = static_cast<std::size_t>(grid.blocks) * static_cast<std::size_t>(grid.threads) * 16 * 8;
    for (const std::size_t bytes : {flight - 16, flight, flight + 16}) {
      if (bytes <= kBytes) CHECK(bench.exact<CopyByGrid>(0, 0, bytes, grid));
    }
  }
}

CASE(host_copies_exactly_at_every_alignment) { every_alignment_is_exact(*open_or_skip("host")); }
CASE(cuda_copies_exactly_at_every_alignment) { every_alignment_is_exact(*open_or_skip("cuda")); }
CASE(host_copies_exactly_with_every_grid) { every_grid_is_exact(*open_or_skip("host")); }
CASE(cuda_copies_exactly_with_every_grid) { every_grid_is_exact(*open_or_skip("cuda")); }

}  // namespace

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
