// The rules of the device contract (device/device.hpp), each run on each kind of device: a rule `r` gives the cases
// host_r and cuda_r, and the latter is skipped, with the reason, where there is no GPU.
//
// Exported memory is tested with a real second process: this program again, started as `--child` with a socket.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "device_conformance_kernels.hpp"
#include "onstream/base/error.hpp"
#include "onstream/device/device.hpp"
#include "onstream/device/devices.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::array kShared = {MemoryKind::device, MemoryKind::pinned};
constexpr std::array kAllKinds = {MemoryKind::device, MemoryKind::pinned, MemoryKind::managed, MemoryKind::host};
constexpr double kPatience_s = 60;

std::shared_ptr<Device> open_or_skip(const char* spec) {
  if (std::string(spec) == "cuda" && !no_cuda_reason().empty()) SKIP("no cuda device: " + no_cuda_reason());
  return open_device(spec, 0);
}

#define RULE(name)                                   \
  void name(Device& device);                         \
  CASE(host_##name) { name(*open_or_skip("host")); } \
  CASE(cuda_##name) { name(*open_or_skip("cuda")); } \
  void name([[maybe_unused]] Device& device)

// A stream for one case.
class OwnStream {
 public:
  explicit OwnStream(Device& device) : device_(device), stream_(device.create_stream()) {}
  ~OwnStream() { device_.destroy_stream(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  operator Stream() const { return stream_; }

 private:
  Device& device_;
  Stream stream_;
};

std::uint64_t* words(const std::shared_ptr<Memory>& memory) { return reinterpret_cast<std::uint64_t*>(memory->data()); }

std::vector<std::uint64_t> read(Device& device, const void* address, std::size_t count) {
  std::vector<std::uint64_t> out(count, 0xdeadbeef);
  const OwnStream stream(device);
  device.copy(out.data(), address, count * sizeof(std::uint64_t), stream);
  device.synchronize(stream);
  return out;
}

std::uint64_t read_word(Device& device, const void* address) { return read(device, address, 1).front(); }

bool counts_from(const std::vector<std::uint64_t>& values, std::uint64_t first) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != first + i) return false;
  }
  return true;
}

template <class Body>
void launch_one(Device& device, const Body& body, Stream stream, Grid grid = {1, 32}) {
  launch(device, kernel_of<Body>(), body, grid, stream);
}

// Kernels that spin may only run once everything else is loaded (a GPU loads kernels when first used, and waits for
// running ones).
void load_kernels(Device& device) {
  const std::shared_ptr<Memory> memory = device.allocate(4096, MemoryKind::device);
  const OwnStream stream(device);
  std::uint64_t* word = words(memory);
  launch_one(device, Fill{word, 4, 0}, stream);
  launch_one(device, AddOnce{word, 1}, stream);
  launch_one(device, StoreWord{word, 7}, stream);
  launch_one(device, WaitForWord{word, 7, word + 1}, stream);
  std::uint64_t out = 0;
  device.copy(&out, word, sizeof out, stream);
  device.synchronize(stream);
}

// --- memory ---

RULE(allocated_memory_is_zeroed_and_as_asked) {
  for (const MemoryKind kind : kAllKinds) {
    const std::shared_ptr<Memory> memory = device.allocate(100 * 8, kind);
    CHECK(memory->kind() == kind);
    CHECK(memory->bytes() == 100 * 8);
    CHECK(read(device, memory->data(), 100) == std::vector<std::uint64_t>(100, 0));
  }
}

RULE(allocating_nothing_or_too_much_is_an_error_with_the_bytes) {
  CHECK_THROWS((void)device.allocate(0, MemoryKind::device), "0 B");
  for (const MemoryKind kind : kShared) {
    bool threw = false;
    try {
      (void)device.allocate(std::size_t{1} << 60, kind);
    } catch (const Error&) {
      threw = true;
    }
    CHECK(threw);
  }
}

RULE(an_address_inside_an_allocation_leads_to_it) {
  for (const MemoryKind kind : kShared) {
    const std::shared_ptr<Memory> before = device.allocate(4096, kind);
    const std::shared_ptr<Memory> memory = device.allocate(10000, kind);
    const std::shared_ptr<Memory> after = device.allocate(4096, kind);
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{9999}}) {
      const MemoryInfo info = device.inspect(memory->data() + offset);
      CHECK(info.kind == kind);
      CHECK(info.base == memory->data());
      CHECK(info.bytes == 10000);
      CHECK(info.id != 0);
      CHECK(info.id == device.inspect(memory->data()).id);
      CHECK(info.exportable);
      CHECK(info.kernel_access);
    }
    CHECK(device.inspect(before->data()).id != device.inspect(memory->data()).id);
    CHECK(device.inspect(memory->data()).id != device.inspect(after->data()).id);
  }
  const std::shared_ptr<Memory> memory = device.allocate(64, MemoryKind::device);
  CHECK(device.inspect(memory->data()).device_index == device.index());
}

RULE(the_id_of_freed_memory_is_never_used_again) {
  std::set<std::uint64_t> ids;
  std::set<const std::byte*> addresses;
  constexpr int kRounds = 16;
  for (int round = 0; round < kRounds; ++round) {
    const std::shared_ptr<Memory> memory = device.allocate(1 << 16, MemoryKind::device);
    ids.insert(device.inspect(memory->data()).id);
    addresses.insert(memory->data());
  }
  CHECK(ids.size() == kRounds);
  CHECK(ids.count(0) == 0);
}

RULE(freed_memory_is_forgotten) {
  std::shared_ptr<Memory> memory = device.allocate(1 << 16, MemoryKind::device);
  const MemoryInfo info = device.inspect(memory->data());
  memory.reset();
  CHECK(device.inspect(info.base).id != info.id);
  CHECK_THROWS((void)device.export_memory(info), "freed");
}

RULE(plain_host_memory_is_reported_as_plain) {
  std::vector<std::uint64_t> plain(1000);
  const MemoryInfo info = device.inspect(plain.data() + 500);
  CHECK(info.kind == MemoryKind::host);
  CHECK(info.base == reinterpret_cast<std::byte*>(plain.data() + 500));
  CHECK(info.bytes == 0);
  CHECK(info.id == 0);
  CHECK(!info.exportable);
  CHECK_THROWS((void)device.export_memory(info), "plain host memory");
  const std::shared_ptr<Memory> allocated = device.allocate(64, MemoryKind::host);
  CHECK(!device.inspect(allocated->data()).exportable);
}

RULE(an_export_of_this_process_comes_back_as_its_own_address) {
  for (const MemoryKind kind : kShared) {
    const std::shared_ptr<Memory> memory = device.allocate(1000, kind);
    Export exported = device.export_memory(device.inspect(memory->data() + 10));
    CHECK(exported.record.bytes == 1000);
    CHECK(exported.record.kind == kind);
    CHECK(exported.record.base == reinterpret_cast<std::uintptr_t>(memory->data()));
    CHECK((exported.record.has_fd != 0) == exported.fd.valid());
    const std::shared_ptr<Mapping> mapping = device.import_memory(exported.record, std::move(exported.fd));
    CHECK(mapping->data() == memory->data());
    CHECK(mapping->bytes() == 1000);
  }
}

RULE(an_export_that_makes_no_sense_is_refused) {
  const std::shared_ptr<Memory> memory = device.allocate(4096, MemoryKind::device);
  Export exported = device.export_memory(device.inspect(memory->data()));
  ExportRecord record = exported.record;
  record.flavour = 0xffff;
  record.process_id ^= 1;
  CHECK_THROWS((void)device.import_memory(record, std::move(exported.fd)), "");
}

// --- small memory ---

RULE(what_the_cpu_puts_kernels_load_and_what_they_store_the_cpu_gets) {
  const SmallCopies how = device.small_copies();
  CHECK(!how.how.empty() && !how.why.empty());
  const OwnStream stream(device);
  std::vector<std::shared_ptr<SmallMemory>> pieces;
  for (const std::size_t bytes : {8, 256, 300, 4096, 8192, 8192}) pieces.push_back(device.allocate_small(bytes));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t value = 1000 + i;
    pieces[i]->put(pieces[i]->bytes() / 8 * 8 - 8, &value, 8);
    pieces[i]->put(0, &value, 8);
  }
  for (int turn = 0; turn < 20; ++turn) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::uint64_t value = 1000 + 10 * static_cast<std::uint64_t>(turn) + i;
      pieces[i]->put(0, &value, 8);
      launch_one(device, AddOnce{words(pieces[i]), 5}, stream);
    }
    device.synchronize(stream);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::uint64_t value = 0;
      pieces[i]->get(&value, 0, 8);
      CHECK(value == 1005 + 10 * static_cast<std::uint64_t>(turn) + i);
    }
  }
  std::uint64_t last = 0;
  pieces[5]->get(&last, 8184, 8);
  CHECK(last == 1005);
  CHECK_THROWS(pieces[0]->put(1, &last, 8), "put of 8 B at offset 1 of small memory of 8 B");
  CHECK_THROWS(pieces[0]->get(&last, 9, 0), "get of 0 B at offset 9");
  CHECK_THROWS((void)device.allocate_small(0), "0 B");
}

// --- managed memory ---

RULE(cpu_and_kernels_use_managed_memory_by_turns) {
  constexpr std::uint64_t kCount = 50'000;
  const std::shared_ptr<Memory> memory = device.allocate(kCount * 8, MemoryKind::managed);
  const OwnStream stream(device);
  for (const Advice advice : {Advice::device, Advice::host, Advice::read_mostly, Advice::none}) {
    device.advise(memory->data(), kCount * 8, advice);
    for (const DeviceKind where : {device.kind(), DeviceKind::host}) {
      for (std::uint64_t i = 0; i < kCount; ++i) words(memory)[i] = i;
      device.prefetch(memory->data(), kCount * 8, where, stream);
      launch_one(device, AddOnce{words(memory) + 7, 100}, stream);
      device.prefetch(memory->data() + 8, 80, DeviceKind::host, stream);
      device.synchronize(stream);
      CHECK(words(memory)[7] == 107 && words(memory)[kCount - 1] == kCount - 1);
      launch_one(device, Fill{words(memory), kCount, 1000}, stream, {4, 64});
      device.synchronize(stream);
      CHECK(words(memory)[0] == 1000 && words(memory)[kCount - 1] == 999 + kCount);
    }
  }
}

RULE(cpu_and_kernels_add_to_one_word_at_the_same_time) {
  constexpr std::uint64_t kTimes = 50;
  constexpr std::uint64_t kByCpu = 2000;
  const std::uint64_t threads = device.kind() == DeviceKind::host ? 4 : 4 * 64;
  for (const Advice advice : {Advice::none, Advice::device}) {
    const std::shared_ptr<Memory> memory = device.allocate(4096, MemoryKind::managed);
    device.advise(memory->data(), 4096, advice);
    const OwnStream stream(device);
    for (int launch = 0; launch < 3; ++launch) launch_one(device, AddShared{words(memory), kTimes}, stream, {4, 64});
    for (std::uint64_t i = 0; i < kByCpu; ++i) HostGroup::add_system(words(memory), 1);
    device.synchronize(stream);
    CHECK(words(memory)[0] == 3 * threads * kTimes + kByCpu);
  }
}

RULE(a_prefetch_in_a_capture_is_left_out) {
  const std::shared_ptr<Memory> memory = device.allocate(4096, MemoryKind::managed);
  const OwnStream stream(device);
  device.begin_capture(stream);
  device.prefetch(memory->data(), 4096, device.kind(), stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  for (int replay = 0; replay < 3; ++replay) device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(words(memory)[0] == 3);
}

RULE(hints_for_memory_that_is_not_managed_are_refused) {
  const std::shared_ptr<Memory> memory = device.allocate(4096, MemoryKind::pinned);
  const std::shared_ptr<Memory> managed = device.allocate(4096, MemoryKind::managed);
  const OwnStream stream(device);
  CHECK_THROWS(device.advise(memory->data(), 8, Advice::device), "which is pinned memory");
  CHECK_THROWS(device.prefetch(memory->data(), 8, device.kind(), stream), "which is pinned memory");
  CHECK_THROWS(device.prefetch(managed->data() + 4000, 97, device.kind(), stream), "beyond the end");
}

// --- memory of another process ---

// One message with at most one descriptor over a socket.
void send_export(int socket, const Export& exported) {
  ExportRecord record = exported.record;
  iovec part{&record, sizeof record};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (exported.fd.valid()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = exported.fd.get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != sizeof record) fail_errno("sending an export to the child");
}

Export receive_export(int socket) {
  Export out;
  iovec part{&out.record, sizeof out.record};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof out.record) fail_errno("receiving an export");
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    out.fd = Fd(fd);
  }
  return out;
}

constexpr int kChildSocket = 3;
constexpr std::uint64_t kFromParent = 1000;
constexpr std::uint64_t kFromChild = 5000;
constexpr std::size_t kExchanged = 4096;

// The other process: maps what it is sent, checks the parent's values, and stores its own with a kernel.
int child(const char* spec) {
  try {
    const std::shared_ptr<Device> device = open_device(spec, 0);
    Export exported = receive_export(kChildSocket);
    const std::shared_ptr<Mapping> mapping = device->import_memory(exported.record, std::move(exported.fd));
    require(mapping->bytes() == kExchanged * 8, "mapped ", mapping->bytes(), " B");
    require(device->inspect(mapping->data() + 8).kernel_access, "kernels cannot access the mapping");
    require(counts_from(read(*device, mapping->data(), kExchanged), kFromParent), "the parent's values are not there");
    auto* out = reinterpret_cast<std::uint64_t*>(mapping->data());
    const OwnStream stream(*device);
    launch_one(*device, Fill{out, kExchanged, kFromChild}, stream, {4, 64});
    device->synchronize(stream);
    const char done = 'k';
    return send(kChildSocket, &done, 1, MSG_NOSIGNAL) == 1 ? 0 : 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
    return 2;
  }
}

// This program, started again with one end of a socket. Ended with the object.
class Child {
 public:
  explicit Child(const Device& device) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) fail_errno("socketpair");
    socket_ = Fd(ends[0]);
    const Fd theirs(fcntl(ends[1], F_DUPFD_CLOEXEC, kChildSocket + 1));  // dup2 of a descriptor to itself keeps CLOEXEC
    ::close(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), kChildSocket);
    std::string program = "/proc/self/exe", flag = "--child", spec = name_of(device.kind());
    std::array<char*, 4> arguments = {program.data(), flag.data(), spec.data(), nullptr};
    const int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    require(error == 0, "cannot start ", program, ": ", std::strerror(error));
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int socket() const { return socket_.get(); }

  // Waits for the child's word that it is done, and for its end.
  void finish() {
    pollfd readable{socket_.get(), POLLIN, 0};
    require(poll(&readable, 1, static_cast<int>(kPatience_s * 1000)) == 1, "the child did not answer");
    char word = 0;
    require(recv(socket_.get(), &word, 1, 0) == 1 && word == 'k', "the child failed; see standard error");
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status ", status);
  }

 private:
  Fd socket_;
  pid_t pid_ = 0;
};

RULE(another_process_loads_and_stores_exported_memory) {
  for (const MemoryKind kind : kShared) {
    const std::shared_ptr<Memory> memory = device.allocate(kExchanged * 8, kind);
    const OwnStream stream(device);
    launch_one(device, Fill{words(memory), kExchanged, kFromParent}, stream);
    device.synchronize(stream);
    Child other(device);
    send_export(other.socket(), device.export_memory(device.inspect(memory->data())));
    other.finish();
    CHECK(counts_from(read(device, memory->data(), kExchanged), kFromChild));
  }
}

// --- work on a stream ---

RULE(copies_between_all_kinds_of_memory_keep_the_order_of_the_stream) {
  constexpr std::size_t kBytes = 1'000'003;
  const std::vector<std::byte> first(kBytes, std::byte{11});
  const std::vector<std::byte> second(kBytes, std::byte{22});
  for (const MemoryKind from : kAllKinds) {
    for (const MemoryKind to : kAllKinds) {
      const std::shared_ptr<Memory> source = device.allocate(kBytes, from);
      const std::shared_ptr<Memory> destination = device.allocate(kBytes, to);
      std::vector<std::byte> out(kBytes);
      const OwnStream stream(device);
      device.copy(source->data(), first.data(), kBytes, stream);
      device.copy(destination->data(), source->data(), kBytes, stream);
      device.copy(source->data(), second.data(), kBytes, stream);
      device.copy(out.data(), destination->data(), kBytes, stream);
      device.copy(destination->data(), source->data(), kBytes, stream);
      device.synchronize(stream);
      CHECK(out == first);
      device.copy(out.data(), destination->data(), kBytes, stream);
      device.synchronize(stream);
      CHECK(out == second);
    }
  }
}

RULE(a_copy_of_nothing_is_fine) {
  const OwnStream stream(device);
  device.copy(nullptr, nullptr, 0, stream);
  device.synchronize(stream);
  CHECK(device.idle(stream));
}

RULE(a_kernel_of_many_blocks_writes_every_element) {
  constexpr std::uint64_t kCount = 10'007;
  const std::shared_ptr<Memory> memory = device.allocate((kCount + 1) * 8, MemoryKind::device);
  const OwnStream stream(device);
  launch_one(device, Fill{words(memory), kCount, 42}, stream, {7, 96});
  device.synchronize(stream);
  std::vector<std::uint64_t> out = read(device, memory->data(), kCount + 1);
  CHECK(out.back() == 0);
  out.pop_back();
  CHECK(counts_from(out, 42));
}

RULE(a_group_is_the_threads_of_one_block_and_its_barrier_holds) {
  constexpr std::uint64_t kBlocks = 5;
  const std::uint64_t threads = device.kind() == DeviceKind::host ? 1 : 64;
  const std::shared_ptr<Memory> memory = device.allocate((1 + 2 * kBlocks) * 8, MemoryKind::device);
  const OwnStream stream(device);
  launch_one(device, CountThreads{words(memory), words(memory) + 1}, stream, {kBlocks, 64});
  device.synchronize(stream);
  const std::vector<std::uint64_t> out = read(device, memory->data(), 1 + 2 * kBlocks);
  CHECK(out.front() == kBlocks * threads);
  for (std::size_t i = 1; i < out.size(); ++i) CHECK(out[i] == threads);
}

RULE(kernel_arguments_of_any_size_are_copied_by_the_launch) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  StoreSum body{};
  for (std::uint64_t& value : body.values) value = 3;
  body.out = words(memory);
  launch_one(device, body, stream);
  for (std::uint64_t& value : body.values) value = 0;
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 96 * 3);
}

RULE(work_that_makes_no_sense_is_an_error) {
  const OwnStream stream(device);
  CHECK_THROWS(launch_one(device, AddOnce{nullptr, 1}, stream, Grid{0, 32}), "0 blocks");
  CHECK_THROWS(device.copy(nullptr, nullptr, 8, stream), "null");
  CHECK_THROWS(device.call(nullptr, nullptr, stream), "null");
  CHECK_THROWS(device.wait(stream, nullptr), "null");
  CHECK_THROWS(device.launch(std::shared_ptr<Graph>(), stream), "null");
}

// Two buffers that share a page, which a GPU's driver would register only once.
RULE(kernels_access_plain_memory_while_it_is_pinned) {
  constexpr std::size_t kBytes = 6000;
  std::vector<std::uint64_t> plain(2 * kBytes / sizeof(std::uint64_t));
  std::uint64_t* second = plain.data() + kBytes / sizeof(std::uint64_t);
  const OwnStream stream(device);
  for (int round = 0; round < 2; ++round) {
    const std::shared_ptr<void> first_pin = device.pin(plain.data(), kBytes);
    std::shared_ptr<void> second_pin = device.pin(second, kBytes);
    CHECK(device.inspect(plain.data()).kernel_access && device.inspect(second).kernel_access);
    launch_one(device, StoreWord{second - 1, 5}, stream);
    launch_one(device, StoreWord{second, 6}, stream);
    device.synchronize(stream);
    second_pin.reset();
    launch_one(device, StoreWord{plain.data(), 7}, stream);
    device.synchronize(stream);
    CHECK(second[-1] == 5 && second[0] == 6 && plain[0] == 7);
    std::fill(plain.begin(), plain.end(), 0);
  }
}

RULE(memory_that_kernels_access_needs_no_pin) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned}) {
    CHECK(device.pin(device.allocate(64, kind)->data(), 64) == nullptr);
  }
}

RULE(the_default_stream_works_too) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  launch_one(device, StoreWord{words(memory), 9}, Stream{});
  std::uint64_t out = 0;
  device.copy(&out, memory->data(), 8, Stream{});
  device.synchronize(Stream{});
  CHECK(out == 9);
  CHECK(device.idle(Stream{}));
}

struct Calls {
  const std::uint64_t* value;
  std::vector<std::uint64_t> seen;
};

void note(void* calls) {
  auto* all = static_cast<Calls*>(calls);
  all->seen.push_back(*all->value);
}

RULE(host_functions_run_in_the_order_of_the_stream) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const std::shared_ptr<Memory> shown = device.allocate(8, MemoryKind::pinned);
  const OwnStream stream(device);
  Calls calls{words(shown), {}};
  for (int i = 0; i < 20; ++i) {
    launch_one(device, AddOnce{words(memory), 1}, stream);
    device.copy(shown->data(), memory->data(), 8, stream);
    device.call(&note, &calls, stream);
  }
  device.synchronize(stream);
  CHECK(calls.seen.size() == 20);
  CHECK(counts_from(calls.seen, 1));
}

// --- words that streams write and wait for ---

// A word in pinned memory that a stream waits for. Whatever happens, the stream is let go on in the end.
struct HostGate {
  explicit HostGate(Device& device) : memory(device.allocate(64, MemoryKind::pinned)) {}
  ~HostGate() { open(); }
  HostGate(const HostGate&) = delete;
  HostGate& operator=(const HostGate&) = delete;
  std::uint64_t* word() const { return words(memory); }
  void open() const { HostGroup::store_release(word(), 1); }
  std::shared_ptr<Memory> memory;
};

RULE(a_stream_writes_words_of_both_sizes_in_its_order) {
  for (const MemoryKind kind : kShared) {
    const std::shared_ptr<Memory> memory = device.allocate(64, kind);
    const OwnStream stream(device);
    auto* narrow = reinterpret_cast<std::uint32_t*>(memory->data());
    write_value(device, narrow, std::uint32_t{0xfffffff0}, stream);
    write_value(device, words(memory) + 1, std::uint64_t{0x123456789abcdef0}, stream);
    launch_one(device, AddOnce{words(memory) + 1, 1}, stream);
    write_value(device, words(memory) + 2, std::uint64_t{5}, stream);
    launch_one(device, AddOnce{words(memory) + 2, 2}, stream);
    device.synchronize(stream);
    CHECK(read(device, memory->data(), 3) == (std::vector<std::uint64_t>{0xfffffff0, 0x123456789abcdef1, 7}));
  }
}

RULE(a_stream_goes_on_when_the_host_writes_the_word_it_waits_for) {
  load_kernels(device);
  const std::shared_ptr<Memory> memory = device.allocate(64, MemoryKind::device);
  const OwnStream stream(device);
  const OwnStream other(device);
  const HostGate gate(device);
  wait_value(device, gate.word(), std::uint64_t{1}, stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  launch_one(device, AddOnce{words(memory) + 1, 1}, other);  // a stream that waits keeps no other from running
  device.synchronize(other);
  CHECK(!device.idle(stream));
  CHECK(read(device, memory->data(), 2) == (std::vector<std::uint64_t>{0, 1}));
  gate.open();
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 1);
}

RULE(one_stream_waits_for_the_word_of_another_and_sees_what_came_before_it) {
  constexpr std::uint64_t kCount = 1000;
  for (const MemoryKind kind : kShared) {
    const std::shared_ptr<Memory> flag = device.allocate(64, kind);
    const std::shared_ptr<Memory> data = device.allocate(kCount * 8, MemoryKind::device);
    const std::shared_ptr<Memory> copied = device.allocate(kCount * 8, MemoryKind::device);
    const OwnStream consumer(device);
    const OwnStream producer(device);
    auto* word = reinterpret_cast<std::uint32_t*>(flag->data());
    launch_one(device, Fill{words(data), kCount, 500}, producer);
    write_value(device, word, std::uint32_t{1}, producer);
    wait_value(device, word, std::uint32_t{1}, consumer);
    device.copy(copied->data(), data->data(), kCount * 8, consumer);
    device.synchronize(consumer);
    CHECK(counts_from(read(device, copied->data(), kCount), 500));
    device.synchronize(producer);
  }
}

RULE(a_word_that_wraps_is_reached) {
  const std::shared_ptr<Memory> memory = device.allocate(64, MemoryKind::pinned);
  const OwnStream stream(device);
  auto* word = reinterpret_cast<std::uint32_t*>(memory->data());
  const std::array ops = {WordOp{WordAct::write, 4, word, 3},  // a little past the wrap
                          WordOp{WordAct::wait_reached, 4, word, 0xfffffffe}, WordOp{WordAct::write, 8, word + 2, 10},
                          WordOp{WordAct::wait_reached, 8, word + 2, 9}, WordOp{WordAct::wait_equal, 8, word + 2, 10}};
  device.operate(ops, stream);
  device.synchronize(stream);
  CHECK(*word == 3);
}

RULE(a_batch_of_any_length_keeps_its_order) {
  constexpr std::uint64_t kSteps = 1000;
  const std::shared_ptr<Memory> memory = device.allocate(64, MemoryKind::pinned);
  std::vector<WordOp> ops;
  for (std::uint64_t i = 0; i < kSteps; ++i) {
    ops.push_back({WordAct::write, 8, words(memory), i});
    ops.push_back({WordAct::wait_equal, 8, words(memory), i});
  }
  const OwnStream stream(device);
  device.operate({}, stream);
  device.operate(ops, stream);
  device.synchronize(stream);
  CHECK(*words(memory) == kSteps - 1);
}

RULE(captured_words_are_written_and_awaited_at_every_replay) {
  constexpr std::uint64_t kReplays = 20;
  const std::shared_ptr<Memory> flags = device.allocate(64, MemoryKind::pinned);
  const std::shared_ptr<Memory> count = device.allocate(64, MemoryKind::device);
  auto* word = reinterpret_cast<std::uint32_t*>(flags->data());
  const OwnStream stream(device);
  device.begin_capture(stream);
  write_value(device, word, std::uint32_t{1}, stream);
  wait_value(device, word, std::uint32_t{1}, stream);
  write_value(device, word, std::uint32_t{0}, stream);
  launch_one(device, AddOnce{words(count), 1}, stream);
  wait_value(device, word, std::uint32_t{0}, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  for (std::uint64_t i = 0; i < kReplays; ++i) device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(read_word(device, count->data()) == kReplays);
}

RULE(a_word_that_cannot_be_is_refused) {
  const std::shared_ptr<Memory> memory = device.allocate(64, MemoryKind::pinned);
  const OwnStream stream(device);
  const auto refuse = [&](WordOp op, const char* text) { CHECK_THROWS(device.operate({&op, 1}, stream), text); };
  refuse({WordAct::write, 2, memory->data(), 0}, "a word of 2 B");
  refuse({WordAct::write, 4, nullptr, 0}, "the word is null");
  refuse({WordAct::wait_equal, 8, memory->data() + 4, 0}, "not aligned to its 8 bytes");
  refuse({WordAct::write, 4, memory->data(), std::uint64_t{1} << 32}, "does not fit a word of 4 B");
}

// --- streams and events ---

// Words in device memory that the cases below make streams wait with.
struct Gate {
  explicit Gate(Device& opened) : device(opened), memory(opened.allocate(4096, MemoryKind::device)) {
    load_kernels(device);
  }
  std::uint64_t* word() const { return words(memory); }
  std::uint64_t* ended() const { return words(memory) + 16; }
  void close_on(Stream stream) const { launch_one(device, WaitForWord{word(), 1, ended()}, stream); }
  void open_on(Stream stream) const { launch_one(device, StoreWord{word(), 1}, stream); }
  bool passed() const { return read_word(device, ended()) == 1; }

  Device& device;
  std::shared_ptr<Memory> memory;
};

RULE(streams_run_at_the_same_time) {
  const Gate gate(device);
  const OwnStream waiting(device);
  const OwnStream storing(device);
  gate.close_on(waiting);
  gate.open_on(storing);
  device.synchronize(waiting);
  CHECK(gate.passed());
}

RULE(enqueuing_behind_unfinished_work_does_not_block) {
  const Gate gate(device);
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const std::shared_ptr<Memory> copied = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  const OwnStream other(device);
  gate.close_on(stream);
  for (int i = 0; i < 100; ++i) launch_one(device, AddOnce{words(memory), 1}, stream);
  device.copy(copied->data(), memory->data(), 8, stream);
  CHECK(!device.idle(stream));
  CHECK(device.idle(other));
  gate.open_on(other);
  device.synchronize(stream);
  CHECK(device.idle(stream));
  CHECK(gate.passed());
  CHECK(read_word(device, copied->data()) == 100);
}

RULE(an_event_orders_work_across_streams) {
  const Gate gate(device);
  constexpr std::uint64_t kCount = 1000;
  const std::shared_ptr<Memory> produced = device.allocate(kCount * 8, MemoryKind::device);
  const std::shared_ptr<Memory> consumed = device.allocate(kCount * 8, MemoryKind::device);
  const OwnStream producer(device);
  const OwnStream consumer(device);
  const OwnStream opener(device);
  gate.close_on(producer);
  launch_one(device, Fill{words(produced), kCount, 77}, producer);
  const std::shared_ptr<Event> event = device.record(producer);
  device.wait(consumer, event);
  device.copy(consumed->data(), produced->data(), kCount * 8, consumer);
  CHECK(!event->done());
  CHECK(!device.idle(consumer));
  gate.open_on(opener);
  device.synchronize(consumer);
  CHECK(event->done());
  CHECK(counts_from(read(device, consumed->data(), kCount), 77));
}

RULE(an_event_on_an_idle_stream_is_soon_done_and_may_be_waited_for_often) {
  const OwnStream stream(device);
  const std::shared_ptr<Event> event = device.record(stream);
  device.synchronize(stream);
  CHECK(event->done());
  const OwnStream other(device);
  device.wait(other, event);
  device.wait(other, event);
  device.wait(stream, event);
  device.synchronize(other);
  device.synchronize(stream);
}

RULE(an_event_outlives_its_stream) {
  std::shared_ptr<Event> event;
  {
    const OwnStream stream(device);
    event = device.record(stream);
  }
  CHECK(event->done());
}

RULE(destroying_a_stream_waits_for_its_work) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  for (int round = 0; round < 20; ++round) {
    const OwnStream stream(device);
    for (int i = 0; i < 50; ++i) launch_one(device, AddOnce{words(memory), 1}, stream);
  }
  CHECK(read_word(device, memory->data()) == 20 * 50);
}

RULE(many_threads_enqueue_on_one_stream) {
  constexpr int kThreads = 8;
  constexpr int kEach = 500;
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        launch_one(device, AddOnce{words(memory), 1}, stream);
        if (i % 100 == 0) device.synchronize(stream);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == kThreads * kEach);
}

// --- capture and replay ---

RULE(captured_work_runs_when_launched_and_as_often) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const std::shared_ptr<Memory> copied = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  AddOnce body{words(memory), 5};
  CHECK(!device.capturing(stream));
  device.begin_capture(stream);
  CHECK(device.capturing(stream));
  launch_one(device, body, stream);
  body.value = 1'000'000;  // the graph has the value of the launch
  device.copy(copied->data(), memory->data(), 8, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  CHECK(!device.capturing(stream));
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 0);
  for (std::uint64_t replay = 1; replay <= 50; ++replay) {
    device.launch(graph, stream);
    device.synchronize(stream);
    CHECK(read_word(device, copied->data()) == replay * 5);
  }
  for (int replay = 0; replay < 50; ++replay) device.launch(graph, stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 501);
}

RULE(captured_host_functions_run_with_every_replay) {
  const std::shared_ptr<Memory> shown = device.allocate(8, MemoryKind::pinned);
  const OwnStream stream(device);
  Calls calls{words(shown), {}};
  device.begin_capture(stream);
  device.call(&note, &calls, stream);
  launch_one(device, AddOnce{words(shown), 1}, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  CHECK(calls.seen.empty());
  for (int replay = 0; replay < 10; ++replay) device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(calls.seen.size() == 10);
  CHECK(counts_from(calls.seen, 0));
}

RULE(a_graph_runs_on_any_stream_and_its_last_owner_may_let_go_at_once) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  const OwnStream other(device);
  device.begin_capture(stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  std::shared_ptr<Graph> graph = device.end_capture(stream);
  device.launch(graph, stream);
  device.launch(graph, other);
  graph.reset();
  device.synchronize(stream);
  device.synchronize(other);
  CHECK(read_word(device, memory->data()) == 2);
}

RULE(work_enqueued_before_a_capture_still_runs) {
  const Gate gate(device);
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  const OwnStream opener(device);
  gate.close_on(stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  device.begin_capture(stream);
  launch_one(device, AddOnce{words(memory), 100}, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  gate.open_on(opener);
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 1);
  device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 101);
}

RULE(an_empty_capture_is_a_graph_that_does_nothing) {
  const OwnStream stream(device);
  device.begin_capture(stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(device.idle(stream));
}

RULE(a_stream_that_waits_for_a_captured_event_joins_the_capture) {
  const std::shared_ptr<Memory> memory = device.allocate(3 * 8, MemoryKind::device);
  std::uint64_t* out = words(memory);
  const OwnStream stream(device);
  const OwnStream joined(device);
  device.begin_capture(stream);
  launch_one(device, AddOnce{out, 1}, stream);
  device.wait(joined, device.record(stream));
  CHECK(device.capturing(joined));
  device.copy(out + 1, out, 8, joined);
  launch_one(device, AddOnce{out + 2, 1}, stream);
  device.wait(stream, device.record(joined));
  device.copy(out, out + 1, 8, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  CHECK(!device.capturing(joined));
  device.synchronize(joined);
  CHECK(read(device, out, 3) == std::vector<std::uint64_t>(3, 0));
  for (int replay = 0; replay < 3; ++replay) device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(read(device, out, 3) == std::vector<std::uint64_t>(3, 3));
}

RULE(misuse_of_a_capture_is_an_error_and_harms_nothing) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  CHECK_THROWS((void)device.end_capture(stream), "not capturing");
  device.begin_capture(stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  CHECK_THROWS(device.begin_capture(stream), "capturing");
  CHECK_THROWS(device.synchronize(stream), "capturing");
  CHECK_THROWS((void)device.idle(stream), "capturing");
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  CHECK_THROWS((void)device.end_capture(stream), "not capturing");
  CHECK_THROWS(device.begin_capture(Stream{}), "default stream");
  device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 1);
}

RULE(an_event_of_a_capture_is_no_event_of_running_work) {
  const OwnStream stream(device);
  device.begin_capture(stream);
  const std::shared_ptr<Event> event = device.record(stream);
  CHECK_THROWS((void)event->done(), "captur");
  (void)device.end_capture(stream);
  CHECK_THROWS(device.wait(stream, event), "captur");
  device.synchronize(stream);
}

// --- the list of devices ---

// --- what a graph keeps ---

template <class Condition>
bool comes_true(const Condition& condition) {
  const Deadline deadline(kPatience_s);
  while (!condition()) {
    if (deadline.passed()) return false;
    HostGroup::pause(0, 0);
  }
  return true;
}

RULE(a_graph_keeps_what_was_retained_until_it_is_over) {
  const OwnStream stream(device);
  const auto from = device.allocate(64, MemoryKind::pinned);
  const auto to = device.allocate(64, MemoryKind::pinned);
  auto thing = std::make_shared<int>(7);
  const std::weak_ptr<int> seen = thing;
  device.begin_capture(stream);
  device.copy(to->data(), from->data(), 64, stream);
  device.retain(stream, std::move(thing));
  auto graph = device.end_capture(stream);
  for (int i = 0; i < 3; ++i) device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(!seen.expired());
  graph.reset();
  CHECK(comes_true([&] { return seen.expired(); }));
}

RULE(a_capture_that_is_dropped_lets_go_of_what_was_retained) {
  auto thing = std::make_shared<int>(7);
  const std::weak_ptr<int> seen = thing;
  {
    const OwnStream stream(device);
    device.begin_capture(stream);
    device.retain(stream, std::move(thing));
  }
  CHECK(comes_true([&] { return seen.expired(); }));
}

RULE(retain_without_a_capture_is_an_error) {
  const OwnStream stream(device);
  CHECK_THROWS(device.retain(stream, std::make_shared<int>(7)), "not capturing");
}

RULE(a_graph_counts_its_operations) {
  const OwnStream stream(device);
  device.begin_capture(stream);
  CHECK(device.end_capture(stream)->nodes() == 0);
  const auto memory = device.allocate(64, MemoryKind::pinned);
  device.begin_capture(stream);
  device.copy(memory->data(), memory->data() + 32, 32, stream);
  CHECK(device.end_capture(stream)->nodes() == 1);
}

// The stream's own worker lets go of the graph, which is the last owner of the device that owns the stream.
CASE(a_graph_may_be_the_last_owner_of_the_host_device) {
  auto device = open_device("host", 0);
  const std::weak_ptr<Device> seen = device;
  const Stream stream = device->create_stream();
  const auto memory = device->allocate(64, MemoryKind::pinned);
  device->begin_capture(stream);
  device->copy(memory->data(), memory->data() + 32, 32, stream);
  device->retain(stream, device);
  auto graph = device->end_capture(stream);
  device->launch(graph, stream);
  graph.reset();
  device.reset();
  CHECK(comes_true([&] { return seen.expired(); }));
}

CASE(the_host_device_is_always_listed_and_last) {
  const std::vector<DeviceRow> rows = list_devices();
  CHECK(!rows.empty());
  CHECK(rows.back().kind == DeviceKind::host);
  CHECK(!rows.back().name.empty());
  CHECK(rows.back().memory_bytes > 0);
  CHECK((rows.size() == 1) == !no_cuda_reason().empty());
}

CASE(a_device_opens_by_name) {
  CHECK(open_device("host", 3)->kind() == DeviceKind::host);
  CHECK(open_device("host", 0)->max_blocks() == 1);
  const DeviceKind expected = no_cuda_reason().empty() ? DeviceKind::cuda : DeviceKind::host;
  CHECK(open_device("auto", 0)->kind() == expected);
}

CASE(a_device_that_does_not_exist_is_an_error_that_says_why) {
  CHECK_THROWS((void)open_device("gpu", 0), "'gpu' is none of: auto, host, cuda, cuda:N");
  CHECK_THROWS((void)open_device("cuda:", 0), "'cuda:'");
  CHECK_THROWS((void)open_device("cuda:-1", 0), "'cuda:-1'");
  CHECK_THROWS((void)open_device("cuda:1x", 0), "'cuda:1x'");
  CHECK_THROWS((void)open_device("host", -1), "local_rank is -1");
  CHECK_THROWS((void)open_device("cuda:4096", 0), "'cuda:4096' was asked for");
  if (!no_cuda_reason().empty()) CHECK_THROWS((void)open_device("cuda", 0), "there is no GPU");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--child") return child(argv[2]);
  return onstream::test::run(argc, argv);
}
