// A stand-in for libnvshmem_host.so.3 on the host device: segments of a World are the symmetric heap.
//
// With it the bench's drivers of NVSHMEM (bench/message/library_nvshmem.cpp, bench/collective/collective_nvshmem.cpp:
// its collectives are onstream's) run on a machine without a GPU, its signal words and their two sets in captured
// windows above all: a word that is zeroed too late is a lost signal, and the wait ends at its deadline with a message.
// Puts and signals keep the order of their stream; nothing else is promised.
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/collective.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/world.hpp"

namespace {

using namespace onstream;

// This library has a copy of onstream of its own, which meets elsewhere than the program's.
Launch own_launch() {
  Launch launch = launch_from_environment();
  launch.address += "-stand-in";
  return launch;
}

constexpr double kWaitS = 20;

std::shared_ptr<World> world;
std::vector<std::shared_ptr<Segment>> heap;

// Where `address` lies in the part of `rank`.
std::byte* of_peer(void* address, int rank) {
  for (const auto& segment : heap) {
    const std::ptrdiff_t offset = static_cast<std::byte*>(address) - segment->local();
    if (offset >= 0 && static_cast<std::size_t>(offset) < segment->bytes()) return segment->peer(rank) + offset;
  }
  std::fprintf(stderr, "stand-in: an address that is not of the symmetric heap\n");
  std::_Exit(1);
}

struct Word {
  std::uint64_t* address;
  std::uint64_t value;
};
std::vector<std::unique_ptr<Word>> words;  // the arguments of enqueued functions; graphs replay them

void* word(std::uint64_t* address, std::uint64_t value) {
  words.push_back(std::make_unique<Word>(Word{address, value}));
  return words.back().get();
}

void set_signal(void* argument) {
  const Word& word = *static_cast<const Word*>(argument);
  HostGroup::store_release(word.address, word.value);
}

void await_signal(void* argument) {
  const Word& word = *static_cast<const Word*>(argument);
  const Deadline deadline(kWaitS);
  while (HostGroup::load_acquire(word.address) < word.value) {
    if (deadline.passed()) {
      std::fprintf(stderr, "stand-in: a signal did not come: %llu instead of %llu\n",
                   static_cast<unsigned long long>(HostGroup::load_acquire(word.address)),
                   static_cast<unsigned long long>(word.value));
      std::_Exit(1);
    }
    ::sched_yield();
  }
}

int collect(OpKind kind, void* destination, const void* source, std::size_t count, ElementType type, void* stream) {
  CollectiveCall call;
  call.kind = kind;
  call.input = source;
  call.output = destination;
  call.count = count;
  call.type = type;
  world->collective().run(call, Stream{stream});
  return 0;
}

struct UniqueId {
  int version;
  char internal[124];
};
struct UniqueIdArguments {
  int version;
  const UniqueId* id;
  int rank;
  int ranks;
};
struct Attributes {
  int version;
  void* mpi;
  int arguments_version;
  UniqueIdArguments unique_id;
};

}  // namespace

extern "C" {

void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  *major = 0;
  *minor = 0;
  *patch = 1;
}
int nvshmemx_get_uniqueid(UniqueId* id) {
  std::memset(id->internal, 9, sizeof(id->internal));
  return id->version == (1 << 16) + 128 ? 0 : 1;
}
int nvshmemx_set_attr_uniqueid_args(int rank, int ranks, const UniqueId* id, Attributes* attributes) {
  attributes->unique_id.id = id;
  attributes->unique_id.rank = rank;
  attributes->unique_id.ranks = ranks;
  return 0;
}
int nvshmemx_hostlib_init_attr(unsigned flags, Attributes* attributes) {
  const bool right = flags == 1u << 3 && attributes->version == (1 << 16) + 144 &&
                     attributes->arguments_version == (1 << 16) + 128 &&
                     attributes->unique_id.version == (1 << 16) + 24 && attributes->unique_id.id->internal[123] == 9;
  if (!right) return 1;
  Parameters parameters = Parameters::from_environment();
  parameters.set("device", "host");
  world = World::create(own_launch(), parameters);
  return attributes->unique_id.rank == world->rank() && attributes->unique_id.ranks == world->size() ? 0 : 1;
}
void nvshmemx_hostlib_finalize() { world = nullptr; }
void* nvshmem_malloc(std::size_t bytes) {
  heap.push_back(world->segment(bytes));
  return heap.back()->local();
}
void nvshmem_free(void* memory) {
  std::erase_if(heap, [memory](const auto& segment) { return segment->local() == memory; });
}
void nvshmem_barrier_all() { world->barrier(); }
void nvshmemx_putmem_signal_on_stream(void* destination, const void* source, std::size_t bytes, std::uint64_t* signal,
                                      std::uint64_t value, int, int peer, void* stream) {
  Device& device = world->device();
  if (bytes > 0) device.copy(of_peer(destination, peer), source, bytes, Stream{stream});
  auto* remote = reinterpret_cast<std::uint64_t*>(of_peer(signal, peer));
  device.call(&set_signal, word(remote, value), Stream{stream});
}
void nvshmemx_signal_wait_until_on_stream(std::uint64_t* signal, int, std::uint64_t value, void* stream) {
  world->device().call(&await_signal, word(signal, value), Stream{stream});
}

int nvshmemx_float_sum_reduce_on_stream(int, void* to, const void* from, std::size_t count, void* stream) {
  return collect(OpKind::all_reduce, to, from, count, ElementType::float32, stream);
}
int nvshmemx_double_sum_reduce_on_stream(int, void* to, const void* from, std::size_t count, void* stream) {
  return collect(OpKind::all_reduce, to, from, count, ElementType::float64, stream);
}
int nvshmemx_int64_sum_reduce_on_stream(int, void* to, const void* from, std::size_t count, void* stream) {
  return collect(OpKind::all_reduce, to, from, count, ElementType::int64, stream);
}
int nvshmemx_float_sum_reducescatter_on_stream(int, void* to, const void* from, std::size_t count, void* stream) {
  return collect(OpKind::reduce_scatter, to, from, count, ElementType::float32, stream);
}
int nvshmemx_double_sum_reducescatter_on_stream(int, void* to, const void* from, std::size_t count, void* stream) {
  return collect(OpKind::reduce_scatter, to, from, count, ElementType::float64, stream);
}
int nvshmemx_int64_sum_reducescatter_on_stream(int, void* to, const void* from, std::size_t count, void* stream) {
  return collect(OpKind::reduce_scatter, to, from, count, ElementType::int64, stream);
}
// This one cannot be captured, so that the driver's answer to that is tested.
int nvshmemx_uint8_sum_reduce_on_stream(int, void* to, const void* from, std::size_t count, void* stream) {
  if (world->device().capturing(Stream{stream})) return 7;
  return collect(OpKind::all_reduce, to, from, count, ElementType::uint8, stream);
}
int nvshmemx_alltoallmem_on_stream(int, void* to, const void* from, std::size_t bytes, void* stream) {
  return collect(OpKind::all_to_all, to, from, bytes, ElementType::uint8, stream);
}
int nvshmemx_fcollectmem_on_stream(int, void* to, const void* from, std::size_t bytes, void* stream) {
  return collect(OpKind::all_gather, to, from, bytes, ElementType::uint8, stream);
}
int nvshmemx_broadcastmem_on_stream(int, void* to, const void* from, std::size_t bytes, int, void* stream) {
  return collect(OpKind::broadcast, to, from, bytes, ElementType::uint8, stream);
}
void nvshmemx_barrier_all_on_stream(void* stream) {
  collect(OpKind::barrier, nullptr, nullptr, 0, ElementType::uint8, stream);
}

}  // extern "C"
