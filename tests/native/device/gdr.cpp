// gdrcopy found at run time, and the small memory over it: with a library that stands in for gdrcopy's and memory of
// this process for the GPU's, without a driver, and without the library.
#include "onstream/device/memory/gdr.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/device.hpp"
#include "support/check.hpp"
#include "support/standard_error.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::size_t kSlab = std::size_t{2} << 20;
constexpr int kOutOfMemory = 12;  // ENOMEM

template <class Answer = int, class... Values>
Answer asked(const char* function, Values... values) {
  void* library = dlopen(ONSTREAM_STAND_IN_GDR, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) failed(__FILE__, __LINE__, dlerror());
  auto* call = reinterpret_cast<Answer (*)(Values...)>(dlsym(library, function));
  if (call == nullptr) failed(__FILE__, __LINE__, dlerror());
  struct Close {
    void* library;
    ~Close() { dlclose(library); }
  } const close{library};
  return call(values...);
}

void refuse(int pin, int map) { asked<void>("stand_in_refuse", pin, map); }

// Aligned like GPU memory, zeroed, and of a kind that the stand-in can map a second time.
class GpuMemory final : public Memory {
 public:
  explicit GpuMemory(std::size_t bytes) : bytes_(bytes) {
    constexpr int kAccess = PROT_READ | PROT_WRITE;
    all_ = ::mmap(nullptr, bytes_ + Gdr::kPageBytes, kAccess, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all_ == MAP_FAILED) fail_errno("mmap");
    const auto at = reinterpret_cast<std::uintptr_t>(all_);
    data_ = static_cast<std::byte*>(all_) + (Gdr::kPageBytes - at % Gdr::kPageBytes) % Gdr::kPageBytes;
  }
  ~GpuMemory() override { ::munmap(all_, bytes_ + Gdr::kPageBytes); }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  std::byte* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }
  MemoryKind kind() const override { return MemoryKind::device; }
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }

 private:
  std::size_t bytes_;
  void* all_ = nullptr;
  std::byte* data_ = nullptr;
};

class PinnedMemory final : public Memory {
 public:
  explicit PinnedMemory(std::size_t bytes) : bytes_(bytes) {}
  std::byte* data() const override { return const_cast<std::byte*>(bytes_.data()); }
  std::size_t bytes() const override { return bytes_.size(); }
  MemoryKind kind() const override { return MemoryKind::pinned; }

 private:
  std::vector<std::byte> bytes_;
};

const Gdr* stand_in(std::string&) {
  static const Gdr gdr(ONSTREAM_STAND_IN_GDR);
  return &gdr;
}

const Gdr* none(std::string& why_none) {
  why_none = "no gdrcopy library: this test has none";
  return nullptr;
}

// A GPU whose memory is this process's: the requests to it, and the mappings left when its memory went.
struct Gpu {
  std::vector<std::size_t> slabs;
  std::vector<std::size_t> pinned;
  std::vector<int> mapped_at_free;

  GdrMemories::Source source(GdrMemories::Find find = &stand_in) {
    return {.gpu = "GPU 7",
            .find = find,
            .device_memory = [this](std::size_t bytes) -> std::shared_ptr<Memory> {
              slabs.push_back(bytes);
              return {new GpuMemory(bytes), [this](const GpuMemory* memory) {
                        mapped_at_free.push_back(asked("stand_in_mapped"));
                        delete memory;
                      }};
            },
            .pinned_memory = [this](std::size_t bytes) -> std::shared_ptr<Memory> {
              pinned.push_back(bytes);
              if (bytes > kSlab * 4) fail(ErrorCode::system, "pinned memory of ", bytes, " B is too much");
              return std::make_shared<PinnedMemory>(bytes);
            }};
  }
};

std::vector<std::byte> pattern(std::size_t bytes, std::size_t seed) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((seed * 131 + i * 7) % 251 + 1);
  return out;
}

bool holds(const Memory& memory, const std::vector<std::byte>& bytes) {
  return std::equal(bytes.begin(), bytes.end(), memory.data());
}

bool all_zero(const std::byte* from, const std::byte* end) {
  return std::all_of(from, end, [](std::byte byte) { return byte == std::byte{0}; });
}

bool nothing_is_pinned() { return asked("stand_in_pinned") == 0 && asked("stand_in_mapped") == 0; }

}  // namespace

CASE(what_the_cpu_writes_through_a_window_is_in_the_memory) {
  const GpuMemory memory(2 * Gdr::kPageBytes);
  const Gdr gdr(ONSTREAM_STAND_IN_GDR);
  {
    const Gdr::GdrWindow window(gdr, memory.address(), memory.bytes());
    CHECK(asked("stand_in_pinned") == 1 && asked("stand_in_mapped") == 1);
    window.write(70'000, "twelve bytes", 12);
    CHECK(std::memcmp(memory.data() + 70'000, "twelve bytes", 12) == 0);
    std::array<char, 5> back{};
    window.read(back.data(), 70'007, 5);
    CHECK(std::string(back.data(), 5) == "bytes");
  }
  CHECK(nothing_is_pinned());
}

CASE(a_range_of_parts_of_pages_is_refused) {
  const GpuMemory memory(2 * Gdr::kPageBytes);
  const Gdr gdr(ONSTREAM_STAND_IN_GDR);
  CHECK_THROWS(Gdr::GdrWindow(gdr, memory.address() + 8, Gdr::kPageBytes), "no whole pages");
  CHECK_THROWS(Gdr::GdrWindow(gdr, memory.address(), 100), "100 B at");
  CHECK_THROWS(Gdr::GdrWindow(gdr, memory.address(), 0), "0 B at");
}

CASE(what_the_library_refuses_to_copy_is_told) {
  const GpuMemory memory(Gdr::kPageBytes);
  const Gdr gdr(ONSTREAM_STAND_IN_GDR);
  const Gdr::GdrWindow window(gdr, memory.address(), memory.bytes());
  std::array<char, 16> bytes{};
  CHECK_THROWS(window.write(Gdr::kPageBytes - 8, bytes.data(), 16), "gdr_copy_to_mapping of 16 B failed with 22");
  CHECK_THROWS(window.read(bytes.data(), Gdr::kPageBytes, 1), "gdr_copy_from_mapping of 1 B failed with 22");
}

CASE(a_missing_library_is_told) { CHECK_THROWS(Gdr("libnowhere_gdrapi.so.9"), "libnowhere_gdrapi.so.9"); }

CASE(a_library_of_something_else_is_told) { CHECK_THROWS(Gdr("libm.so.6"), "has no gdr_open"); }

CASE(a_missing_driver_is_told) { CHECK_THROWS(Gdr(ONSTREAM_STAND_IN_GDR_ALONE), "not its driver (gdrdrv)"); }

CASE(small_pieces_share_a_slab_and_their_bytes_go_through_its_window) {
  Gpu gpu;
  GdrMemories memories(gpu.source());
  std::string why_none;
  CHECK(stand_in(why_none) != nullptr);
  const int written = asked("stand_in_written");
  const int read = asked("stand_in_read");
  std::vector<std::shared_ptr<SmallMemory>> pieces;
  int bytes_of_all = 0;
  for (const std::size_t bytes : {8, 256, 300, 4096, 8192}) {
    pieces.push_back(memories.allocate(bytes));
    bytes_of_all += static_cast<int>(bytes);
  }
  CHECK(gpu.slabs == std::vector<std::size_t>{kSlab} && gpu.pinned.empty());
  CHECK(asked("stand_in_pinned") == 1 && asked("stand_in_mapped") == 1);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    SmallMemory& piece = *pieces[i];
    CHECK(piece.kind() == MemoryKind::device && reinterpret_cast<std::uintptr_t>(piece.data()) % 256 == 0);
    CHECK(i == 0 || pieces[i - 1]->data() + pieces[i - 1]->bytes() <= piece.data());
    CHECK(all_zero(piece.data(), piece.data() + piece.bytes()));
    piece.put(0, pattern(piece.bytes(), i).data(), piece.bytes());
  }
  CHECK(asked("stand_in_written") - written == bytes_of_all);
  for (std::size_t i = 0; i < pieces.size(); ++i) CHECK(holds(*pieces[i], pattern(pieces[i]->bytes(), i)));
  CHECK(all_zero(pieces[0]->data() + 8, pieces[1]->data()) && all_zero(pieces[2]->data() + 300, pieces[3]->data()));

  const auto stored = pattern(40, 9);
  std::copy(stored.begin(), stored.end(), pieces[2]->data() + 17);  // as a kernel would
  std::vector<std::byte> back(40);
  pieces[2]->get(back.data(), 17, 40);
  CHECK(back == stored && asked("stand_in_read") - read == 40);
  pieces[1]->put(255, stored.data(), 1);
  CHECK(pieces[1]->data()[255] == stored[0] && holds(*pieces[2], pattern(17, 2)));
}

CASE(what_does_not_fit_a_small_piece_is_refused) {
  Gpu gpu;
  GdrMemories memories(gpu.source());
  const auto piece = memories.allocate(8);
  std::array<std::byte, 16> bytes{};
  CHECK_THROWS(piece->put(0, bytes.data(), 9), "put of 9 B at offset 0 of small memory of 8 B");
  CHECK_THROWS(piece->get(bytes.data(), 9, 0), "get of 0 B at offset 9 of small memory of 8 B");
  CHECK_THROWS((void)memories.allocate(0), "allocate_small: 0 B");
  CHECK_THROWS((void)memories.allocate(~std::size_t{0} - 10), "pinned memory of 18446744073709551605 B");
  CHECK(memories.how().how == "gdrcopy" && memories.allocate(8)->kind() == MemoryKind::device);
}

CASE(a_slab_that_is_full_is_followed_by_another) {
  Gpu gpu;
  GdrMemories memories(gpu.source());
  const auto half = memories.allocate(kSlab / 2);
  const auto rest = memories.allocate(kSlab / 2 - 255);  // takes the slab's last 256 B too
  CHECK(gpu.slabs.size() == 1 && rest->data() == half->data() + kSlab / 2);
  const auto next = memories.allocate(1);
  CHECK((gpu.slabs == std::vector<std::size_t>{kSlab, kSlab}) && asked("stand_in_mapped") == 2);
  const auto large = memories.allocate(kSlab + 1);
  CHECK(gpu.slabs.back() == kSlab + Gdr::kPageBytes && large->bytes() == kSlab + 1);
  const auto last = pattern(1, 3);
  for (SmallMemory* piece : {half.get(), rest.get(), next.get(), large.get()}) {
    piece->put(piece->bytes() - 1, last.data(), 1);
    CHECK(piece->data()[piece->bytes() - 1] == last[0]);
  }
  CHECK(asked("stand_in_pins_asked") >= 3 && asked("stand_in_mapped") == 3);
}

CASE(a_slab_is_unmapped_and_freed_with_its_last_piece) {
  Gpu gpu;
  std::shared_ptr<SmallMemory> first;
  std::shared_ptr<SmallMemory> second;
  {
    GdrMemories memories(gpu.source());
    auto given_back = memories.allocate(64);
    const std::byte* was_at = given_back->data();
    const auto bytes = pattern(64, 1);
    given_back->put(0, bytes.data(), bytes.size());
    given_back.reset();
    first = memories.allocate(64);
    CHECK(first->data() != was_at && all_zero(first->data(), first->data() + 64));
    second = memories.allocate(64);
    CHECK(gpu.slabs.size() == 1);
  }
  const auto bytes = pattern(64, 2);
  second->put(0, bytes.data(), bytes.size());
  first.reset();
  CHECK(asked("stand_in_pinned") == 1 && asked("stand_in_mapped") == 1 && gpu.mapped_at_free.empty());
  CHECK(holds(*second, bytes));
  second.reset();
  CHECK(nothing_is_pinned());
  CHECK(gpu.mapped_at_free == std::vector<int>{0});
}

CASE(a_window_that_cannot_be_made_is_told_and_pinned_memory_serves) {
  const struct Refused {
    int pin;
    int map;
    std::string why;
  } rows[] = {{kOutOfMemory, 0, "gdr_pin_buffer of 2097152 B failed with 12"},
              {0, kOutOfMemory, "gdr_map of 2097152 B failed with 12"}};
  std::string log;
  set_log(LogLevel::warn, -1);
  for (const Refused& row : rows) {
    Gpu gpu;
    GdrMemories memories(gpu.source());
    CHECK(memories.how().how == "gdrcopy");
    refuse(row.pin, row.map);
    std::shared_ptr<SmallMemory> piece;
    log += standard_error_of([&] { piece = memories.allocate(100); });
    refuse(0, 0);
    CHECK(nothing_is_pinned() && gpu.mapped_at_free == std::vector<int>{0});
    const SmallCopies how = memories.how();
    CHECK(how.how == "mapped host memory" && how.why == row.why);

    const int written = asked("stand_in_written");
    const int pins_asked = asked("stand_in_pins_asked");
    const auto bytes = pattern(100, 4);
    piece->put(0, bytes.data(), bytes.size());
    std::vector<std::byte> back(60);
    piece->get(back.data(), 40, 60);
    CHECK(piece->kind() == MemoryKind::pinned && holds(*piece, bytes));
    CHECK(std::equal(back.begin(), back.end(), bytes.begin() + 40));
    CHECK(memories.allocate(8)->kind() == MemoryKind::pinned);  // not asked again
    CHECK(gpu.slabs.size() == 1 && (gpu.pinned == std::vector<std::size_t>{100, 8}));
    CHECK(asked("stand_in_written") == written && asked("stand_in_pins_asked") == pins_asked);
  }
  // Once a process.
  CHECK(log == "onstream warn: gdrcopy is here but does not work on GPU 7: " + rows[0].why +
                   "; small copies go through pinned memory\n");
}

CASE(a_later_slab_that_fails_leaves_earlier_pieces_as_they_are) {
  Gpu gpu;
  GdrMemories::Source source = gpu.source();
  source.device_memory = [&gpu, allocate = source.device_memory](std::size_t bytes) {
    if (!gpu.slabs.empty()) fail(ErrorCode::system, "GPU 7 has no ", bytes, " B left");
    return allocate(bytes);
  };
  set_log(LogLevel::off, -1);
  GdrMemories memories(source);
  const auto early = memories.allocate(kSlab - 256);
  const auto late = memories.allocate(300);
  CHECK(early->kind() == MemoryKind::device && late->kind() == MemoryKind::pinned);
  CHECK(memories.how().how == "mapped host memory" && memories.how().why == "GPU 7 has no 2097152 B left");
  const auto bytes = pattern(kSlab - 256, 5);
  early->put(0, bytes.data(), bytes.size());
  CHECK(holds(*early, bytes) && asked("stand_in_mapped") == 1);
}

CASE(without_gdrcopy_no_memory_of_the_gpu_is_taken_and_the_reason_is_told) {
  Gpu gpu;
  GdrMemories memories(gpu.source(&none));
  CHECK(memories.how().how == "mapped host memory" && memories.how().why == "no gdrcopy library: this test has none");
  CHECK(memories.allocate(8)->kind() == MemoryKind::pinned && gpu.slabs.empty());
  CHECK(memories.how().why == "no gdrcopy library: this test has none");
  CHECK(GdrMemories::expected(&none).how == "mapped host memory");
  CHECK(GdrMemories::expected(&stand_in).how == "gdrcopy");
}

CASE(threads_allocate_and_put_at_once) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 40;
  constexpr std::size_t kBytes = 20'000;  // several slabs
  Gpu gpu;
  {
    GdrMemories memories(gpu.source());
    std::array<std::vector<std::shared_ptr<SmallMemory>>, kThreads> pieces;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < kEach; ++i) {
          pieces[t].push_back(memories.allocate(kBytes));
          pieces[t].back()->put(0, pattern(kBytes, t * kEach + i).data(), kBytes);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t t = 0; t < kThreads; ++t) {
      for (std::size_t i = 0; i < kEach; ++i) CHECK(holds(*pieces[t][i], pattern(kBytes, t * kEach + i)));
    }
    CHECK(gpu.slabs.size() == 2 && gpu.pinned.empty() && asked("stand_in_mapped") == 2);
  }
  CHECK(nothing_is_pinned() && (gpu.mapped_at_free == std::vector<int>{1, 0}));
}

CASE(every_kind_of_device_says_how_small_copies_work_and_why) {
  const SmallCopies host = small_copies_of(DeviceKind::host);
  CHECK(host.how == "stores" && !host.why.empty());
  const SmallCopies cuda = small_copies_of(DeviceKind::cuda);
  CHECK(!cuda.why.empty());
  CHECK((cuda.how == "none") == !no_cuda_reason().empty());
  std::string why_none;
  if (cuda.how != "none") CHECK((cuda.how == "gdrcopy") == (Gdr::of_process(why_none) != nullptr));
  if (cuda.how == "mapped host memory") CHECK(cuda.why.find("gdr") != std::string::npos);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
