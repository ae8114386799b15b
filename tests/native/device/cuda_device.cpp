// The promises of the cuda device beyond the contract that every device keeps (device_conformance.cpp): the user's own
// memory, streams, captures and current GPU, two processes over CUDA IPC, two GPUs in one process.
//
// The second process is this program again, started as `--child` with a socket.
#include "onstream/device.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;

#ifndef ONSTREAM_WITH_CUDA

namespace {
CASE(the_cuda_device_is_tested_where_it_is_built) { SKIP("no cuda device: " + no_cuda_reason()); }
}  // namespace

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }

#else

#include <fcntl.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cuda_device_kernels.hpp"
#include "exports.hpp"
#include "onstream/base/error.hpp"
#include "onstream/device/cuda/gpu.hpp"
#include "onstream/device/cuda/memory/ranges.hpp"
#include "onstream/device/export.hpp"
#include "onstream/layout.hpp"
#include "onstream/plan.hpp"
#include "support/processes.hpp"
#include "support/ranks.hpp"
#include "support/standard_error.hpp"

namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

std::shared_ptr<Device> gpu(int ordinal = 0) {
  if (const std::string why = no_cuda_reason(); !why.empty()) SKIP("no cuda device: " + why);
  const int count = static_cast<int>(list_devices().size()) - 1;
  if (ordinal >= count)
    SKIP("needs " + std::to_string(ordinal + 1) + " GPUs, this machine has " + std::to_string(count));
  return open_device("cuda:" + std::to_string(ordinal), 0);
}

void add(Device& device, void* word, std::uint64_t value, Stream stream) {
  const Kernel kernel{"add_to", &host_entry<AddTo>, add_to_entry()};
  launch(device, kernel, AddTo{static_cast<std::uint64_t*>(word), value}, {1, 32}, stream);
}

// The first word at an address, read through a stream of the device's own.
std::uint64_t word_at(Device& device, const void* address) {
  std::uint64_t out = 0;
  const Stream stream = device.create_stream();
  device.copy(&out, address, sizeof(out), stream);
  device.synchronize(stream);
  device.destroy_stream(stream);
  return out;
}

void set_word(Device& device, void* address, std::uint64_t value) {
  const Stream stream = device.create_stream();
  device.copy(address, &value, sizeof(value), stream);
  device.synchronize(stream);
  device.destroy_stream(stream);
}

void add_and_wait(Device& device, void* word, std::uint64_t value) {
  const Stream stream = device.create_stream();
  add(device, word, value, stream);
  device.synchronize(stream);
  device.destroy_stream(stream);
}

// The user's memory, freed with the object.
class Users {
 public:
  Users(void* address, void (*release)(void*)) : address_(address), release_(release) {}
  ~Users() { release_(address_); }
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;
  std::byte* get() const { return static_cast<std::byte*>(address_); }

 private:
  void* address_;
  void (*release_)(void*);
};

class UsersStream {
 public:
  UsersStream() : stream_{user::make_stream()} {}
  ~UsersStream() { user::destroy_stream(stream_.handle); }
  UsersStream(const UsersStream&) = delete;
  UsersStream& operator=(const UsersStream&) = delete;
  operator Stream() const { return stream_; }
  void* handle() const { return stream_.handle; }

 private:
  Stream stream_;
};

// --- the user's memory ---

CASE(memory_of_cuda_malloc_is_known_and_exportable) {
  const std::shared_ptr<Device> device = gpu();
  user::use_gpu(0);
  const Users memory(user::malloc_device(kBytes), &user::free_device);
  const MemoryInfo info = device->inspect(memory.get() + 1000);
  CHECK(info.kind == MemoryKind::device);
  CHECK(info.device_index == 0);
  CHECK(info.base == memory.get());
  CHECK(info.bytes == kBytes);
  CHECK(info.id != 0);
  CHECK(info.exportable);
  CHECK(info.kernel_access);
  Export exported = device->export_memory(info);
  CHECK(exported.record.has_fd == 0 && !exported.fd.valid());
  CHECK(device->import_memory(exported.record, Fd())->data() == memory.get());
}

CASE(freed_memory_of_cuda_malloc_is_noticed) {
  const std::shared_ptr<Device> device = gpu();
  user::use_gpu(0);
  void* first = user::malloc_device(kBytes);
  const MemoryInfo before = device->inspect(first);
  user::free_device(first);
  CHECK(device->inspect(first).id != before.id);
  CHECK_THROWS((void)device->export_memory(before), "freed");
  const Users second(user::malloc_device(kBytes), &user::free_device);  // as a rule at the same address
  CHECK(device->inspect(second.get()).id != before.id);
}

CASE(memory_of_a_pool_is_usable_but_not_exportable_and_the_reason_is_given) {
  const std::shared_ptr<Device> device = gpu();
  user::use_gpu(0);
  const Users memory(user::malloc_pool(kBytes), &user::free_pool);
  const MemoryInfo info = device->inspect(memory.get());
  CHECK(info.kind == MemoryKind::device);
  CHECK(info.kernel_access);
  CHECK(!info.exportable);
  CHECK_THROWS((void)device->export_memory(info), "cudaMallocAsync");
}

CASE(pinned_memory_of_the_user_is_usable_but_not_exportable) {
  const std::shared_ptr<Device> device = gpu();
  user::use_gpu(0);
  const Users memory(user::malloc_pinned(kBytes), &user::free_pinned);
  const MemoryInfo info = device->inspect(memory.get() + 8);
  CHECK(info.kind == MemoryKind::pinned);
  CHECK(info.kernel_access);
  CHECK(!info.exportable);
  *reinterpret_cast<std::uint64_t*>(memory.get()) = 40;
  add_and_wait(*device, memory.get(), 2);
  CHECK(*reinterpret_cast<std::uint64_t*>(memory.get()) == 42);
  CHECK_THROWS((void)device->export_memory(info), "pinned");
}

CASE(managed_memory_is_known_as_such) {
  const std::shared_ptr<Device> device = gpu();
  const std::shared_ptr<Memory> memory = device->allocate(kBytes, MemoryKind::managed);
  const MemoryInfo info = device->inspect(memory->data() + 100);
  CHECK(info.kind == MemoryKind::managed);
  CHECK(info.kernel_access);
  CHECK(!info.exportable);
  CHECK_THROWS((void)device->export_memory(info), "managed");
}

CASE(memory_that_the_user_maps_is_usable_and_its_reason_is_given) {
  const std::shared_ptr<Device> device = gpu();
  user::use_gpu(0);
  const Users memory(user::map_device(kBytes), &user::unmap_device);
  const MemoryInfo info = device->inspect(memory.get() + 16);
  CHECK(info.kind == MemoryKind::device);
  CHECK(info.device_index == 0);
  CHECK(info.kernel_access);
  CHECK(!info.exportable);
  CHECK_THROWS((void)device->export_memory(info), "cuMemMap");
}

// One kind of memory that the user brings.
struct UsersKind {
  const char* name;
  void* (*make)(std::size_t bytes);
  void (*release)(void* address);
  const char* why_private;  // in messages, and in explain(); empty: peers reach it
};

constexpr std::array<UsersKind, 5> kUsersKinds = {
    {{"cudaMalloc", &user::malloc_device, &user::free_device, ""},
     {"cudaMallocAsync", &user::malloc_pool, &user::free_pool, "it comes from a memory pool (cudaMallocAsync)"},
     {"cuMemMap", &user::map_device, &user::unmap_device, "it was mapped by the program or another library (cuMemMap)"},
     {"cudaMallocManaged", &user::malloc_managed, &user::free_device, "managed memory belongs to one process"},
     {"cudaMallocHost", &user::malloc_pinned, &user::free_pinned, "the driver does not share pinned memory"}}};

// Both ranks send from such memory into such memory, as messages and as a plan.
void exchange(World& world, const UsersKind& kind) {
  user::use_gpu(0);
  const Users out(kind.make(kBytes), kind.release);
  const Users in(kind.make(kBytes), kind.release);
  Device& device = world.device();
  const Stream stream = device.create_stream();
  const int peer = 1 - world.rank();
  PlanBuilder builder = world.plan(kind.name);
  builder.send(out.get(), Layout::contiguous(kBytes), peer).recv(in.get(), Layout::contiguous(kBytes), peer);
  const auto plan = builder.build();
  CHECK(plan->explain().find(kind.why_private) != std::string::npos);
  for (unsigned turn = 0; turn < 4; ++turn) {
    const auto mine = pattern(kBytes, 10 * static_cast<unsigned>(world.rank()) + turn);
    const auto theirs = pattern(kBytes, 10 * static_cast<unsigned>(peer) + turn);
    std::vector<unsigned char> got(kBytes);
    device.copy(out.get(), mine.data(), kBytes, stream);
    if (turn % 2 == 0) {
      plan->launch(stream);
    } else {
      const auto request = world.irecv(in.get(), kBytes, peer, {}, stream);
      world.send(out.get(), kBytes, peer, {}, stream);
      world.wait(request, stream);
    }
    world.synchronize(stream);
    device.copy(got.data(), in.get(), kBytes, stream);
    device.synchronize(stream);
    CHECK(got == theirs);
    world.barrier();
  }
  device.destroy_stream(stream);
}

CASE(messages_and_plans_take_any_memory_of_the_user_and_say_what_is_slow) {
  (void)gpu();
  for (const UsersKind& kind : kUsersKinds) {
    const std::string said =
        standard_error_of([&] { run_ranks(2, quick("cuda:0"), [&](World& world) { exchange(world, kind); }); });
    const std::string wanted(kind.why_private);
    if (wanted.empty()) {
      CHECK(said.empty());
    } else {
      CHECK(said.find(wanted) != std::string::npos);
      CHECK(said.find(wanted, said.find(wanted) + 1) == std::string::npos);
    }
  }
}

// --- the user's streams, captures and current GPU ---

CASE(a_stream_of_the_user_is_used_as_it_is) {
  const std::shared_ptr<Device> device = gpu();
  user::use_gpu(0);
  const UsersStream stream;
  const std::shared_ptr<Memory> memory = device->allocate(8, MemoryKind::device);
  for (int i = 0; i < 10; ++i) add(*device, memory->data(), 1, stream);
  device->synchronize(stream);
  CHECK(device->idle(stream));
  CHECK(word_at(*device, memory->data()) == 10);
}

CASE(everything_on_the_way_of_an_op_works_in_a_capture_of_the_user) {
  const std::shared_ptr<Device> device = gpu();
  user::use_gpu(0);
  const UsersStream stream;
  const UsersStream side;
  const std::shared_ptr<Memory> memory = device->allocate(2 * 8, MemoryKind::device);
  std::byte* second = memory->data() + 8;
  device->load({"add_to", &host_entry<AddTo>, add_to_entry()});
  user::begin_global_capture(stream.handle());
  CHECK(device->capturing(stream));
  CHECK(!device->capturing(side));
  add(*device, memory->data(), 1, stream);
  device->wait(side, device->record(stream));
  CHECK(device->capturing(side));
  device->copy(second, memory->data(), 8, side);
  device->wait(stream, device->record(side));
  add(*device, second, 100, stream);
  user::end_capture(stream.handle(), 3);
  CHECK(word_at(*device, memory->data()) == 3);
  CHECK(word_at(*device, second) == 103);
  CHECK(!user::error_left());
}

CASE(the_default_stream_is_refused_while_a_stream_that_waits_for_it_is_captured_and_the_capture_goes_on) {
  const std::shared_ptr<Device> device = gpu();
  user::use_gpu(0);
  const UsersStream stream;
  const Stream standard{};
  const std::shared_ptr<Memory> memory = device->allocate(8, MemoryKind::device);
  device->load({"add_to", &host_entry<AddTo>, add_to_entry()});
  user::begin_global_capture(stream.handle());
  add(*device, memory->data(), 1, stream);
  CHECK(!device->capturing(standard));
  CHECK_THROWS((void)device->record(standard), "default stream cannot be used while another stream");
  CHECK_THROWS((void)device->point(standard), "default stream cannot be used while another stream");
  CHECK_THROWS((void)device->idle(standard), "default stream cannot be used while another stream");
  CHECK_THROWS(device->synchronize(standard), "default stream cannot be used while another stream");
  user::end_capture(stream.handle(), 2);
  CHECK(word_at(*device, memory->data()) == 2);
  const std::shared_ptr<Event> point = device->record(standard);
  device->synchronize(standard);
  CHECK(point->done());
  CHECK(!user::error_left());
}

// PyTorch captures in the global mode, in which CUDA refuses to allocate, map or query anywhere in the process.
CASE(the_control_path_works_while_the_user_captures) {
  const std::shared_ptr<Device> device = gpu();
  user::use_gpu(0);
  const UsersStream stream;
  const Stream other = device->create_stream();
  const std::shared_ptr<Memory> memory = device->allocate(8, MemoryKind::device);
  const Users users(user::malloc_device(kBytes), &user::free_device);
  std::shared_ptr<Memory> late;
  user::begin_global_capture(stream.handle());
  const AddInCapture body{{reinterpret_cast<std::uint64_t*>(memory->data()), 1}};  // nobody has loaded its kernel
  launch(*device, {"add_in_capture", &host_entry<AddInCapture>, add_in_capture_entry()}, body, {1, 32}, stream);
  const auto work = [&] {
    late = device->allocate(kBytes, MemoryKind::device);
    CHECK(device->inspect(late->data()).exportable);
    CHECK(device->export_memory(device->inspect(late->data())).fd.valid());
    CHECK(device->export_memory(device->inspect(users.get())).record.bytes == kBytes);
    (void)device->allocate(kBytes, MemoryKind::pinned);
    const std::shared_ptr<Event> event = device->record(other);
    device->synchronize(other);
    CHECK(device->idle(other) && event->done());
  };
  work();
  std::exception_ptr thrown;
  std::thread elsewhere([&] {
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  });
  elsewhere.join();
  if (thrown) std::rethrow_exception(thrown);
  user::end_capture(stream.handle(), 2);
  device->destroy_stream(other);
  CHECK(word_at(*device, memory->data()) == 2);
}

namespace {

// Fails if the kernel, which is loaded and was never launched, starts only when one that waits has ended.
template <class Body>
void starts_beside_one_that_waits(const Kernel& late) {
  const std::shared_ptr<Device> device = gpu();
  const Kernel waiting{"await_word", &host_entry<AwaitWord>, await_word_entry()};
  const std::shared_ptr<Memory> flags = device->allocate(64, MemoryKind::pinned);
  const std::shared_ptr<Memory> sum = device->allocate(64, MemoryKind::device);
  auto* word = reinterpret_cast<std::uint64_t*>(flags->data());
  device->load(waiting);
  device->load(late);
  const Stream first = device->create_stream();
  const Stream second = device->create_stream();
  launch(*device, waiting, AwaitWord{word, word + 1}, {1, 32}, first);
  launch(*device, late, Body{{reinterpret_cast<std::uint64_t*>(sum->data()), 5}}, {1, 32}, second);
  device->copy(sum->data() + 8, sum->data(), 8, second);
  device->synchronize(second);
  HostGroup::store_release(word, 1);
  device->synchronize(first);
  CHECK(word[1] == 1);  // had the other kernel waited for its end, it would have given up
  CHECK(word_at(*device, sum->data() + 8) == 5);
  device->destroy_stream(first);
  device->destroy_stream(second);
}

}  // namespace

CASE(a_kernel_that_was_loaded_starts_beside_one_that_waits) {
  starts_beside_one_that_waits<AddLate>({"add_late", &host_entry<AddLate>, add_late_entry()});
}

CASE(a_first_kernel_that_can_print_starts_beside_one_that_waits) {
  starts_beside_one_that_waits<AddOrTell>({"add_or_tell", &host_entry<AddOrTell>, add_or_tell_entry()});
}

// Where the driver does hand some out, allocate() takes the other way, so this one is tried by itself.
CASE(pinned_memory_in_a_file_serves_where_the_driver_hands_out_none) {
  const std::shared_ptr<Device> device = gpu();
  cuda::Gpu& gpu = cuda::Gpu::of(device->index());
  const cuda::FileRange range = cuda::FileRange::create(gpu, kBytes);
  CHECK(range.mapped_bytes() >= kBytes);
  const cuda::FileRange again = cuda::FileRange::import(gpu, range.export_fd(), range.mapped_bytes());
  CHECK(again.data() != range.data());
  auto* last = reinterpret_cast<std::uint64_t*>(range.data() + kBytes) - 1;
  auto* same = reinterpret_cast<std::uint64_t*>(again.data() + kBytes) - 1;
  *last = 30;
  add_and_wait(*device, last, 2);
  add_and_wait(*device, same, 10);
  CHECK(*same == 42);
  CHECK_THROWS((void)cuda::FileRange::import(gpu, range.export_fd(), 2 * range.mapped_bytes()), "announced");
}

// A thread that lets go of its own or a peer's pinned memory must not keep others from launching the very work that
// running kernels wait for.
CASE(work_starts_while_another_thread_waits_to_let_go_of_pinned_memory) {
  const std::shared_ptr<Device> device = gpu();
  if (!cuda::Gpu::of(device->index()).maps_host_memory()) SKIP("this driver, or container, hands out no host memory");
  const Kernel waiting{"await_word", &host_entry<AwaitWord>, await_word_entry()};
  const std::shared_ptr<Memory> flags = device->allocate(64, MemoryKind::pinned);
  const std::shared_ptr<Memory> sum = device->allocate(64, MemoryKind::device);
  auto* word = reinterpret_cast<std::uint64_t*>(flags->data());
  device->load(waiting);
  add_and_wait(*device, sum->data(), 1);
  const Stream first = device->create_stream();
  const Stream second = device->create_stream();
  for (std::uint64_t round = 1; round <= 5; ++round) {
    HostGroup::store_release(word, 0);
    std::shared_ptr<Memory> page = device->allocate(4096, MemoryKind::pinned);
    launch(*device, waiting, AwaitWord{word, word + 1}, {1, 32}, first);
    std::atomic<bool> begun = false;
    std::atomic<bool> gone = false;
    std::thread freeing([&] {
      begun = true;
      page = nullptr;
      gone = true;
    });
    // Once it has begun it is given a moment to get to where it waits, if it does.
    constexpr std::uint64_t kMomentNs = 20'000'000;
    while (!begun) std::this_thread::yield();
    for (const std::uint64_t start = now_ns(); !gone && now_ns() - start < kMomentNs;) std::this_thread::yield();
    add(*device, sum->data(), 1, second);
    device->synchronize(second);
    HostGroup::store_release(word, 1);
    device->synchronize(first);
    freeing.join();
    CHECK(word[1] == 1);  // had the launch waited for the kernel's end, that would have given up
    CHECK(word_at(*device, sum->data()) == round + 1);
  }
  device->destroy_stream(first);
  device->destroy_stream(second);
}

CASE(the_users_way_of_loading_kernels_is_left_alone) {
  const char* before = user::loading_set_by_user();
  (void)gpu();
  CHECK(user::loading_set_by_user() == before);
}

CASE(the_callers_current_gpu_stays_and_no_error_is_left) {
  const std::shared_ptr<Device> first = gpu(0);
  const std::shared_ptr<Device> second = gpu(1);
  for (const int mine : {0, 1}) {
    user::use_gpu(mine);
    for (Device* device : {first.get(), second.get()}) {
      const std::shared_ptr<Memory> memory = device->allocate(kBytes, MemoryKind::device);
      add_and_wait(*device, memory->data(), 5);
      CHECK(word_at(*device, memory->data()) == 5);
      CHECK(user::current_gpu() == mine);
      CHECK_THROWS(device->copy(memory->data(), nullptr, 8, Stream{}), "null");
      CHECK(!user::error_left());
    }
  }
  CHECK(user::current_gpu() == 1);
  (void)gpu(0);
  CHECK(user::current_gpu() == 1);
}

CASE(a_thread_that_never_chose_a_gpu_may_use_any) {
  const std::shared_ptr<Device> device = gpu(1);
  const std::shared_ptr<Memory> memory = device->allocate(8, MemoryKind::device);
  std::exception_ptr thrown;
  std::thread thread([&] {
    try {
      add_and_wait(*device, memory->data(), 7);
    } catch (...) {
      thrown = std::current_exception();
    }
  });
  thread.join();
  if (thrown) std::rethrow_exception(thrown);
  CHECK(word_at(*device, memory->data()) == 7);
}

// --- two GPUs of one process ---

CASE(gpus_of_one_process_reach_each_others_memory_at_its_own_address) {
  const std::shared_ptr<Device> first = gpu(0);
  const std::shared_ptr<Device> second = gpu(1);
  user::use_gpu(0);
  const Users users(user::malloc_device(kBytes), &user::free_device);
  const std::shared_ptr<Memory> ours = first->allocate(kBytes, MemoryKind::device);
  for (std::byte* address : {users.get(), ours->data()}) {
    Export exported = first->export_memory(first->inspect(address));
    const std::shared_ptr<Mapping> mapping = second->import_memory(exported.record, std::move(exported.fd));
    CHECK(mapping->data() == address);
    CHECK(second->inspect(address).kernel_access);
    set_word(*first, address, 30);
    add_and_wait(*second, mapping->data(), 4);
    CHECK(word_at(*first, address) == 34);
  }
}

// --- another process ---

// Adds 1000 to the first word of the exported memory, twice mapped, on the GPU that `spec` names.
int child(const char* spec) {
  try {
    const std::shared_ptr<Device> device = open_device(spec, 0);
    const Export exported = receive_export(kChildSocket);
    const auto map = [&] {
      return device->import_memory(exported.record, Fd(fcntl(exported.fd.get(), F_DUPFD_CLOEXEC, 0)));
    };
    std::shared_ptr<Mapping> mapping = map();
    std::shared_ptr<Mapping> again = map();
    require(device->inspect(mapping->data()).kernel_access, "kernels cannot access the mapping");
    add_and_wait(*device, mapping->data(), 400);
    mapping.reset();  // the other one stays whole
    add_and_wait(*device, again->data(), 500);
    again.reset();
    mapping = map();
    add_and_wait(*device, mapping->data(), 100);
    return say_done();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
    return 2;
  }
}

// Another process, on the GPU that `spec` names, adds to exported memory.
void another_process_adds(Device& device, std::byte* address, const std::string& spec) {
  set_word(device, address, 11);
  Child other(spec);
  send_export(other.socket(), device.export_memory(device.inspect(address)));
  other.finish();
  CHECK(word_at(device, address) == 1011);
}

CASE(another_process_on_the_same_gpu_uses_memory_of_cuda_malloc) {
  const std::shared_ptr<Device> device = gpu();
  user::use_gpu(0);
  const Users users(user::malloc_device(kBytes), &user::free_device);
  const Users small(user::malloc_device(512), &user::free_device);  // shares a block of the driver's with others
  another_process_adds(*device, users.get(), "cuda:0");
  another_process_adds(*device, small.get(), "cuda:0");
}

CASE(another_process_on_another_gpu_uses_memory_of_every_exportable_kind) {
  const std::shared_ptr<Device> device = gpu();
  (void)gpu(1);
  user::use_gpu(0);
  const Users users(user::malloc_device(kBytes), &user::free_device);
  const std::shared_ptr<Memory> ours = device->allocate(kBytes, MemoryKind::device);
  const std::shared_ptr<Memory> pinned = device->allocate(kBytes, MemoryKind::pinned);
  for (std::byte* address : {users.get(), ours->data(), pinned->data()})
    another_process_adds(*device, address, "cuda:1");
}

// --- refusals ---

CASE(what_the_gpu_cannot_give_is_an_error_with_the_values) {
  const std::shared_ptr<Device> device = gpu();
  CHECK_THROWS((void)device->allocate(std::size_t{1} << 50, MemoryKind::device), "free");
  CHECK_THROWS((void)device->allocate(std::size_t{1} << 50, MemoryKind::managed), "free");
  const Stream stream = device->create_stream();
  const std::shared_ptr<Memory> memory = device->allocate(8, MemoryKind::device);
  const Kernel kernel{"add_to", &host_entry<AddTo>, add_to_entry()};
  const AddTo body{reinterpret_cast<std::uint64_t*>(memory->data()), 1};
  CHECK_THROWS(launch(*device, kernel, body, {1, kMaxThreads + 1}, stream), "513 threads");
  const Kernel host_only{"host_only", &host_entry<AddTo>, nullptr};
  CHECK_THROWS(launch(*device, host_only, body, {1, 32}, stream), "host_only was not built for CUDA");
  CHECK_THROWS(device->load(host_only), "host_only was not built for CUDA");
  CHECK_THROWS(device->begin_capture(Stream{}), "default stream");
  CHECK_THROWS(device->destroy_stream(Stream{}), "default stream");
  CHECK(!user::error_left());
  add(*device, memory->data(), 1, stream);  // and all works on
  device->synchronize(stream);
  device->destroy_stream(stream);
  CHECK(word_at(*device, memory->data()) == 1);
}

CASE(memory_of_a_host_device_rank_is_refused) {
  const std::shared_ptr<Device> device = gpu();
  const std::shared_ptr<Device> host = open_device("host", 0);
  const std::shared_ptr<Memory> memory = host->allocate(4096, MemoryKind::device);
  Export exported = host->export_memory(host->inspect(memory->data()));
  CHECK_THROWS((void)device->import_memory(exported.record, std::move(exported.fd)), "host device");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--child") return child(argv[2]);
  return onstream::test::run(argc, argv);
}

#endif
