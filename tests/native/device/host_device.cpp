// The promises of the host device beyond the contract that device_conformance.cpp tests: nothing left behind, memory
// that is checked before it is mapped, workers that keep out of the program's way, waiters that never miss their wake.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/device.hpp"
#include "onstream/device/export.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/device/host/patience.hpp"
#include "onstream/device/memory/own_memory.hpp"
#include "onstream/device/memory/relay.hpp"
#include "support/check.hpp"

using namespace onstream;

namespace {

// Not atomic: right only if nothing else runs at the same time.
struct Increment {
  std::uint64_t* word;
  template <Group G>
  void operator()(const G&) const {
    *word += 1;
  }
};

const Kernel kIncrement{"increment", &host_entry<Increment>, nullptr};

struct HostCase {
  std::shared_ptr<Device> device = open_device("host", 0);
  Stream stream = device->create_stream();
  ~HostCase() { device->destroy_stream(stream); }

  void increment(std::uint64_t* word) const { launch(*device, kIncrement, Increment{word}, {1, 1}, stream); }
};

std::size_t open_descriptors() {
  std::size_t count = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), &closedir);
  while (readdir(folder.get()) != nullptr) ++count;
  return count;
}

std::size_t mappings_of_memory() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:onstream") != std::string::npos ? 1 : 0;
  return count;
}

// An export as another process would see it.
ExportRecord foreign(ExportRecord record) {
  record.process_id ^= 1;
  return record;
}

CASE(freed_memory_leaves_no_descriptor_and_no_mapping) {
  const HostCase host;
  const std::size_t descriptors = open_descriptors();
  CHECK(mappings_of_memory() == 0);
  {
    const std::shared_ptr<Memory> memory = host.device->allocate(1 << 20, MemoryKind::device);
    Export exported = host.device->export_memory(host.device->inspect(memory->data()));
    const std::shared_ptr<Mapping> mapping =
        host.device->import_memory(foreign(exported.record), std::move(exported.fd));
    CHECK(mapping->data() != memory->data());
    *reinterpret_cast<std::uint64_t*>(mapping->data()) = 7;
    CHECK(*reinterpret_cast<std::uint64_t*>(memory->data()) == 7);
    CHECK(mappings_of_memory() == 2);
    CHECK(open_descriptors() > descriptors);
  }
  CHECK(open_descriptors() == descriptors);
  CHECK(mappings_of_memory() == 0);
}

CASE(pieces_of_own_memory_are_zero_apart_and_live_as_long_as_any_is_held) {
  auto own = std::make_unique<OwnMemory>(open_device("host", 0));
  std::vector<std::pair<std::shared_ptr<std::byte>, std::size_t>> pieces;
  for (const std::size_t bytes : {8, 1, 200'000, 100'000, 300'000, 128, 8}) {
    const std::shared_ptr<std::byte> piece = own->take(bytes);
    CHECK(std::all_of(piece.get(), piece.get() + bytes, [](std::byte one) { return one == std::byte{0}; }));
    std::fill_n(piece.get(), bytes, std::byte{0xee});
    pieces.emplace_back(piece, bytes);
  }
  CHECK(pieces[1].first.get() - pieces[0].first.get() == 128);  // of one chunk
  own = nullptr;
  pieces.erase(pieces.begin());
  for (const auto& [piece, bytes] : pieces) {
    CHECK(std::all_of(piece.get(), piece.get() + bytes, [](std::byte one) { return one == std::byte{0xee}; }));
  }
}

CASE(imported_memory_is_known_and_cannot_be_exported_again) {
  const HostCase host;
  const std::shared_ptr<Memory> memory = host.device->allocate(5000, MemoryKind::pinned);
  Export exported = host.device->export_memory(host.device->inspect(memory->data()));
  const std::shared_ptr<Mapping> mapping = host.device->import_memory(foreign(exported.record), std::move(exported.fd));
  const MemoryInfo info = host.device->inspect(mapping->data() + 4999);
  CHECK(info.base == mapping->data());
  CHECK(info.bytes == 5000);
  CHECK(info.kernel_access);
  CHECK(!info.exportable);
  CHECK_THROWS((void)host.device->export_memory(info), "imported from another process");
}

CASE(a_mapping_outlives_the_memory_that_was_exported) {
  const HostCase host;
  std::shared_ptr<Memory> memory = host.device->allocate(4096, MemoryKind::device);
  *memory->data() = std::byte{5};
  Export own = host.device->export_memory(host.device->inspect(memory->data()));
  Export other = host.device->export_memory(host.device->inspect(memory->data()));
  const std::shared_ptr<Mapping> alias = host.device->import_memory(own.record, std::move(own.fd));
  const std::shared_ptr<Mapping> mapping = host.device->import_memory(foreign(other.record), std::move(other.fd));
  memory.reset();
  CHECK(*alias->data() == std::byte{5});
  CHECK(*mapping->data() == std::byte{5});
}

CASE(an_export_of_freed_memory_of_this_process_is_refused) {
  const HostCase host;
  std::shared_ptr<Memory> memory = host.device->allocate(4096, MemoryKind::device);
  Export exported = host.device->export_memory(host.device->inspect(memory->data()));
  memory.reset();
  CHECK_THROWS((void)host.device->import_memory(exported.record, std::move(exported.fd)), "freed before");
}

CASE(a_descriptor_that_does_not_hold_what_the_record_says_is_refused) {
  const HostCase host;
  const std::shared_ptr<Memory> memory = host.device->allocate(4096, MemoryKind::device);
  const ExportRecord record = foreign(host.device->export_memory(host.device->inspect(memory->data())).record);
  CHECK_THROWS((void)host.device->import_memory(record, Fd()), "came without its file descriptor");
  Fd small(memfd_create("small", MFD_CLOEXEC));
  CHECK(ftruncate(small.get(), 100) == 0);
  CHECK_THROWS((void)host.device->import_memory(record, std::move(small)), "holds 100 B");
  ExportRecord nothing = record;
  nothing.bytes = 0;
  CHECK_THROWS((void)host.device->import_memory(nothing, Fd(memfd_create("nothing", MFD_CLOEXEC))), "says 0 B");
  ExportRecord gpu = record;
  gpu.device = DeviceKind::cuda;
  CHECK_THROWS((void)host.device->import_memory(gpu, Fd()), "cannot map the device memory of cuda device");
}

CASE(every_synchronize_returns_when_its_own_work_is_done) {
  constexpr int kThreads = 6;
  constexpr int kRounds = 3000;
  const HostCase host;
  std::vector<std::uint64_t> done(kThreads * 16);
  std::vector<int> early(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&host, &done, &early, t] {
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        host.increment(&done[t * 16]);
        host.device->synchronize(host.stream);
        if (done[t * 16] != round) early[t] += 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(early == std::vector<int>(kThreads, 0));
}

CASE(replays_of_one_graph_never_overlap) {
  constexpr std::uint64_t kReplays = 2000;
  const HostCase one;
  const HostCase two;
  std::uint64_t word = 0;
  one.device->begin_capture(one.stream);
  for (int i = 0; i < 10; ++i) one.increment(&word);
  const std::shared_ptr<Graph> graph = one.device->end_capture(one.stream);
  for (std::uint64_t replay = 0; replay < kReplays; ++replay) {
    one.device->launch(graph, one.stream);
    two.device->launch(graph, two.stream);
  }
  one.device->synchronize(one.stream);
  two.device->synchronize(two.stream);
  CHECK(word == 2 * 10 * kReplays);
}

CASE(a_capture_ends_on_the_stream_on_which_it_began) {
  const HostCase one;
  const HostCase two;
  one.device->begin_capture(one.stream);
  one.device->wait(two.stream, one.device->record(one.stream));
  CHECK_THROWS((void)one.device->end_capture(two.stream), "must end there");
  (void)one.device->end_capture(one.stream);
  CHECK(!two.device->capturing(two.stream));
}

CASE(destroying_what_is_no_stream_is_an_error) {
  const HostCase host;
  CHECK_THROWS(host.device->destroy_stream(Stream{}), "no stream that this device created");
  const Stream stream = host.device->create_stream();
  host.device->destroy_stream(stream);
  CHECK_THROWS(host.device->destroy_stream(stream), "destroyed already");
}

CASE(a_device_that_goes_ends_its_streams_after_their_work) {
  std::uint64_t word = 0;
  {
    const std::shared_ptr<Device> device = open_device("host", 0);
    const Stream stream = device->create_stream();
    for (int i = 0; i < 1000; ++i) launch(*device, kIncrement, Increment{&word}, {1, 1}, stream);
  }
  CHECK(word == 1000);
}

CASE(signals_go_to_the_threads_of_the_program) {
  static volatile sig_atomic_t caught;
  caught = 0;
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) { caught = 1; };
  sigaction(SIGUSR1, &action, &before);
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  const HostCase host;
  std::uint64_t word = 0;
  host.increment(&word);
  pthread_sigmask(SIG_BLOCK, &usr1, nullptr);
  kill(getpid(), SIGUSR1);
  host.increment(&word);
  host.device->synchronize(host.stream);
  sigset_t pending;
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGUSR1) == 1);
  CHECK(caught == 0);
  pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr);
  CHECK(caught == 1);
  sigaction(SIGUSR1, &before, nullptr);
}

CASE(a_careful_copy_says_what_is_not_mapped) {
  constexpr std::size_t kBytes = 100'000;
  const std::vector<unsigned char> from(kBytes, 5);
  std::vector<unsigned char> to(kBytes);
  CHECK(copy_carefully(to.data(), from.data(), kBytes) == 0 && to == from);
  void* const gone = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(gone, kBytes);
  CHECK(copy_carefully(to.data(), gone, kBytes) == EFAULT);
  CHECK(copy_carefully(gone, from.data(), kBytes) == EFAULT);
}

CASE(idle_streams_use_no_processor) {
  std::vector<std::unique_ptr<HostCase>> hosts;
  std::uint64_t word = 0;
  for (int i = 0; i < 8; ++i) {
    hosts.push_back(std::make_unique<HostCase>());
    hosts.back()->increment(&word);
    hosts.back()->device->synchronize(hosts.back()->stream);
  }
  const auto used_ns = [] {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
  };
  const timespec settle{0, 20'000'000};
  const timespec watched{0, 100'000'000};
  nanosleep(&settle, nullptr);
  const double before_ns = used_ns();
  nanosleep(&watched, nullptr);
  CHECK(used_ns() - before_ns < 20e6);  // one spinning worker alone would use 100e6
}

// Takes this process's standard error while it lives.
class CapturedTasks {
 public:
  CapturedTasks() : saved_(::dup(STDERR_FILENO)) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) fail_errno("pipe");
    read_end_ = Fd(ends[0]);
    const Fd write_end(ends[1]);
    ::dup2(write_end.get(), STDERR_FILENO);
  }
  ~CapturedTasks() { ::dup2(saved_.get(), STDERR_FILENO); }
  CapturedTasks(const CapturedTasks&) = delete;
  CapturedTasks& operator=(const CapturedTasks&) = delete;

  // Whether `text` comes in time.
  bool comes(const std::string& text) {
    const Deadline deadline(test::kSoonS);
    while (said_.find(text) == std::string::npos && !deadline.passed()) {
      pollfd readable{read_end_.get(), POLLIN, 0};
      std::array<char, 4096> part{};
      if (::poll(&readable, 1, 100) != 1) continue;
      const ssize_t bytes = ::read(read_end_.get(), part.data(), part.size());
      if (bytes > 0) said_.append(part.data(), static_cast<std::size_t>(bytes));
    }
    return said_.find(text) != std::string::npos;
  }

 private:
  Fd saved_;
  Fd read_end_;
  std::string said_;
};

// A host function that ends when it is told to.
struct Blocker {
  std::atomic<bool> open{false};
  static void run(void* self) { static_cast<Blocker*>(self)->open.wait(false); }
  void let_go() {
    open.store(true);
    open.notify_all();
  }
};

CASE(a_wait_behind_a_function_that_does_not_end_is_no_silent_one) {
  HostCase one;
  HostCase other;
  Blocker blocker;
  bool said = false;
  host::set_patience(0.05);
  {
    CapturedTasks standard_error;
    one.device->call(&Blocker::run, &blocker, one.stream);
    other.device->wait(other.stream, one.device->record(one.stream));
    std::thread waits([&] { other.device->synchronize(other.stream); });
    said = standard_error.comes("s for an event of another stream");
    blocker.let_go();
    waits.join();
    one.device->synchronize(one.stream);
  }
  host::set_patience(60);
  CHECK(said);
  CHECK(one.device->idle(one.stream) && other.device->idle(other.stream));
}

// Which address a function touches first of a page that it may not: a handler notes it, and opens the page.
class FirstTouch {
 public:
  FirstTouch() {
    void* const page = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    page_ = page;
    struct sigaction action{};
    action.sa_sigaction = &FirstTouch::note;
    action.sa_flags = SA_SIGINFO;
    CHECK(::sigaction(SIGSEGV, &action, &before_) == 0);
  }
  ~FirstTouch() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(page_, kBytes);
  }
  FirstTouch(const FirstTouch&) = delete;
  FirstTouch& operator=(const FirstTouch&) = delete;

  template <class Function>
  const void* of(int forbidden, const Function& function) {
    first_ = nullptr;
    ::mprotect(page_, kBytes, forbidden);
    function(static_cast<Line*>(page_));
    return first_;
  }
  const Line* line() const { return static_cast<const Line*>(page_); }

 private:
  static constexpr std::size_t kBytes = 4096;
  static void note(int, siginfo_t* told, void*) {
    first_ = told->si_addr;
    ::mprotect(page_, kBytes, PROT_READ | PROT_WRITE);
  }
  inline static void* page_ = nullptr;
  inline static void* volatile first_ = nullptr;
  struct sigaction before_{};
};

// A line's old content may end in the next flag by chance, as bytes of a packed message do (lane/host/packed.hpp).
CASE(the_low_half_of_a_line_is_stored_last_and_loaded_first) {
  FirstTouch touch;
  CHECK(touch.of(PROT_READ, [](Line* line) { HostGroup::store_line(line, {1, 2}); }) == &touch.line()->high);
  Line seen{};
  CHECK(touch.of(PROT_NONE, [&](Line* line) { seen = HostGroup::load_line(line); }) == &touch.line()->low);
  CHECK(seen.low == 1 && seen.high == 2);
}

}  // namespace

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
