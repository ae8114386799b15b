// The contract of a device: where memory and work live. Two implement it, `host` and `cuda` (list_devices() has them);
// tests/native/device/device_conformance.cpp, device_streams.cpp and device_graphs.cpp run every rule below on each.
//
// Rules for all implementations:
// - Thread-safe. No call blocks on earlier stream work unless it says so.
// - Errors of the control path throw Error naming the call and the values. Destructors never throw.
// - allocate() is never called on the way of an op; it may block.
// - A Stream is the user's own (cudaStream_t, or host::Stream*) adopted as it is, or one from create_stream(). Streams
//   are known by their handles, so cudaStreamPerThread, one handle for a stream of each thread, is an invalid_argument.
// - Ownership: Memory, Mapping, Event and Graph are shared handles that keep alive all they need.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace onstream {

// How memory gets from process to process, which the library alone does (device/export.hpp).
class Attachment;
class Fd;
class Mapping;
struct Export;
struct ExportRecord;
struct ProcessRecord;

// --- kernels, as the host launches them (kernel.hpp says how they are written) ---

// Threads of a block: a bound known to the compiler leaves each thread 128 registers, and bodies do not spill.
constexpr int kMaxThreads = 512;

struct Grid {
  int blocks = 1;
  int threads = 1;  // of each block, at most kMaxThreads; ignored by the host device
};

struct Kernel {
  const char* name;
  void (*host)(const void* body, int blocks);
  const void* cuda;  // address of a __global__ function taking the body by value; null in a build without CUDA
};

// The expression in a build with CUDA; else null, and the address it names need not exist.
#ifdef ONSTREAM_WITH_CUDA
#define ONSTREAM_CUDA_ADDRESS(address) address
#else
#define ONSTREAM_CUDA_ADDRESS(address) nullptr
#endif

// --- memory and streams ---

enum class DeviceKind : std::int32_t { host, cuda };

// device: the device's own memory. pinned: host memory that the device can access. managed: migrating between both.
// host: plain pageable host memory. file: pinned memory whose pages the process may map a second time (mremap), and
// known as pinned once it is there; letting go of it may wait for kernels. On the host device all but `host` are
// shareable host memory.
enum class MemoryKind : std::int32_t { device, pinned, managed, host, file };

// Memory of kinds device, pinned and file begins at a multiple of this on every device, where there are addresses for
// that, so that a heap in it gives pieces of any alignment for which it has room, up to a GiB.
constexpr std::size_t kMostAlignment = std::size_t{1} << 30;
constexpr std::size_t alignment_of(std::size_t bytes) { return std::min(std::bit_floor(bytes), kMostAlignment); }

// Where the pages of managed memory are to be, or how they are used.
enum class Advice : std::int32_t {
  none,         // they move to the CPU or GPU that touches them
  device,       // they stay on the device, and the CPU maps them there if it can
  host,         // they stay with the CPU, and the device maps them there
  read_mostly,  // both sides keep copies, which a write ends
};

const char* name_of(DeviceKind kind);
const char* name_of(MemoryKind kind);

// A stream of any device, not owned. The null handle is the device's default stream, on cuda the legacy one.
struct Stream {
  void* handle = nullptr;
  friend bool operator==(Stream, Stream) = default;
};

// The device's answer about an address: the allocation that holds it.
struct MemoryInfo {
  MemoryKind kind = MemoryKind::host;
  int device_index = -1;         // owner, for kind device
  std::byte* base = nullptr;     // start of the allocation; the address itself when unknown (plain host memory)
  std::size_t bytes = 0;         // of the allocation; 0 when unknown
  std::uint64_t id = 0;          // never reused by the process, so a freed and re-allocated address differs; 0 unknown
  bool exportable = false;       // export_memory() works
  bool kernel_access = false;    // this device's kernels may load and store it
  const char* why_private = "";  // when not exportable; a text that lives for ever

  friend bool operator==(const MemoryInfo&, const MemoryInfo&) = default;
};

// An allocation. Freed with the last owner.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* data() const = 0;
  virtual std::size_t bytes() const = 0;
  virtual MemoryKind kind() const = 0;
};

// Memory that the CPU fills with stores of its own and kernels load, without a call to the driver: for small copies.
class SmallMemory : public Memory {
 public:
  // There for every kernel that is launched after the call. Threads may put to ranges that do not overlap.
  virtual void put(std::size_t offset, const void* source, std::size_t bytes) = 0;
  // Reads the stores of finished kernels. May be slow.
  virtual void get(void* destination, std::size_t offset, std::size_t bytes) const = 0;
};

// How small memory works on a device, for people: "gdrcopy", and why it is that.
struct SmallCopies {
  std::string how;
  std::string why;
};

// One thing that a stream itself does with a word of memory, without a kernel: see Device::operate().
enum class WordAct : std::uint32_t {
  write,         // stores the value; everything earlier on the stream is seen, system-wide, before it
  wait_equal,    // the stream goes on once the word is the value
  wait_reached,  // ... once the word, which counts up and may wrap, is the value or past it
};

struct WordOp {
  WordAct act = WordAct::write;
  std::uint32_t bytes = 4;  // of the word, 4 or 8; it is aligned to its size
  void* word = nullptr;     // memory that this device's kernels may access, not managed
  std::uint64_t value = 0;
};

// A point in a stream's work.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() const = 0;  // all work before the point has finished; does not block
};

// Whether nothing before the point is under way any more: it has finished, or is lost with its device, as the next call
// on that device says. For callers that only let go of things the work used; not within a capture, where no point is
// done.
inline bool ended(const Event& event) noexcept {
  try {
    return event.done();
  } catch (...) {
    return true;
  }
}

// Stands for an object that captured work uses and a program may end before the graph: asked before each launch.
class LaunchGuard {
 public:
  virtual ~LaunchGuard() = default;
  virtual void check_launch() const = 0;  // throws if the launch is forbidden
};

// Captured work, to be launched any number of times. Owns the things retained while it was captured.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual std::size_t nodes() const = 0;  // operations in it; 0: nothing was captured
};

// The work that a stream's next op comes behind, to tell whether kernels were launched here since: this library's
// kernels let the next one in before they end (cuda/entry.cuh). Host devices start an op only when the one before has
// ended.
struct Behind {
  std::uint64_t launches = 0;  // how many kernels there were, on this stream or one that is counted with it
  std::uint64_t capture = 0;   // which capture the stream is in, a number that never comes again; 0: none
  bool joins = false;          // a capture: behind work of several streams
};

// Symmetric memory: every rank allocates it together, zeroed, and can address every peer's part that its device
// reaches. A part is its owner's until the owner's last handle goes, or Fabric::free(); peers may use it no longer. A
// peer that has mapped it, and still does, finds memory there all the same; the owner's proxy refuses, and the world
// fails.
class Segment : public LaunchGuard {
 public:
  // All three throw closed once the segment was freed.
  virtual std::byte* local() const = 0;
  // rank's part in this rank's address space; local() for itself. Throws unsupported, saying why, where this rank
  // cannot load and store it.
  virtual std::byte* peer(int rank) const = 0;
  // The address that rank itself has for its part. Never to be followed by another.
  virtual std::uint64_t address_at(int rank) const = 0;

  virtual bool direct(int rank) const = 0;                 // whether peer() works, now
  virtual const std::string& why_not(int rank) const = 0;  // "" where it does
  virtual bool direct_everywhere() const = 0;              // every rank reaches every part; the same on every rank
  virtual std::size_t bytes() const = 0;
  virtual MemoryKind kind() const = 0;
  virtual std::uint64_t number() const = 0;  // of this world's segments, from 1; the same on every rank
};

// Counts of one rank's registration cache, and its contents.
struct PeerMappingStatistics {
  // Look-ups, since the world was made.
  std::uint64_t hits = 0;         // answered from the cache
  std::uint64_t misses = 0;       // the peer was asked to map an allocation
  std::uint64_t failures = 0;     // ... and could not
  std::uint64_t unreachable = 0;  // of memory that cannot leave its process
  std::uint64_t stale = 0;        // allocations that were dropped, as they had been freed
  // Present registrations; segments are not counted.
  std::uint64_t exported = 0;  // allocations of this rank, once for each peer that maps them
  std::uint64_t exported_bytes = 0;
  std::uint64_t imported = 0;  // peers' allocations that this rank maps
  std::uint64_t imported_bytes = 0;
};

// --- words of memory that ranks share ---

// How a signal changes its word.
enum class SignalOp : std::uint8_t { set, add };

enum class AtomicOp : std::uint8_t { fetch, set, add, bit_and, bit_or, bit_xor, swap, compare_swap };

const char* name_of(AtomicOp op);                  // "fetch", "set", "add", "and", ..., "compare_swap"
AtomicOp atomic_op_from(const std::string& name);  // throws invalid_argument with all the names

// The comparison of a wait, the word on the left. `reached` counts: it holds from the value on, also across a wrap.
enum class Compare : std::uint8_t { eq, ne, gt, ge, lt, le, reached, any_bit };

const char* name_of(Compare compare);  // "eq", ..., "any_bit"

enum class Sign : std::uint8_t { unsigned_word, signed_word };

// The condition of a wait.
struct Until {
  Compare compare = Compare::reached;
  std::uint64_t value = 0;
  std::size_t width = 8;
  Sign sign = Sign::unsigned_word;
};

std::string text_of(const Until& until);       // "a word of 8 B to be at least 3"
std::string condition_of(const Until& until);  // "to be at least 3"

// --- the contract ---

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceKind kind() const = 0;
  virtual int index() const = 0;         // ordinal among devices of its kind
  virtual std::string name() const = 0;  // "NVIDIA H200", "AMD EPYC (2 cores)"
  // The same text for the same piece of hardware, whichever process asks: a GPU's UUID.
  virtual std::string identity() const { return std::string(name_of(kind())); }
  virtual int max_blocks() const = 0;  // thread blocks that run at the same time (SMs; 1 on the host)
  // The devices, by identity, whose memory this one stores whole lines into: 128 bytes that a subgroup stores
  // (Group::store_subgroup) are loaded there by a subgroup all or not at all. Only devices known to do so. The host,
  // whose threads are subgroups by themselves, has no such access, and needs none.
  virtual std::vector<std::string> whole_lines_to() const { return {identity()}; }

  // --- memory ---
  // Zeroed memory of a kind; `device` memory is exportable. Throws with the bytes asked for when there is none.
  virtual std::shared_ptr<Memory> allocate(std::size_t bytes, MemoryKind kind) = 0;
  // Zeroed, at least `bytes`; kind device or pinned, as small_copies() tells.
  virtual std::shared_ptr<SmallMemory> allocate_small(std::size_t bytes) = 0;
  virtual SmallCopies small_copies() const = 0;
  virtual MemoryInfo inspect(const void* address) const = 0;
  // Bytes of the device's own memory that no program uses now; 0 where that is not known.
  virtual std::size_t free_bytes() const { return 0; }
  // Grows when memory that this library allocated in this process is freed: as long as it does not, inspect()'s answers
  // about such memory still hold. One load.
  virtual std::uint64_t frees() const = 0;
  // Whether memory of which inspect() said this is such memory, or gets no second look: plain memory on the host
  // device, even if other memory is there by now.
  virtual bool counts_frees_of(const MemoryInfo& info) const = 0;
  // Lets kernels of this device access plain host memory at its own address, while the handle lives. Null where they
  // may do so without, or where the memory is of another kind. Throws for memory that the system does not let be
  // pinned.
  virtual std::shared_ptr<void> pin(const void* address, std::size_t bytes) {
    static_cast<void>(address), static_cast<void>(bytes);
    return nullptr;
  }
  virtual Export export_memory(const MemoryInfo& info) = 0;
  // Maps memory that another rank exported; an export of this very process comes back as its own address. Throws
  // unsupported, with the reason, when this device cannot reach it. Null while memory that its owner has freed is
  // mapped at its place: it may be tried again.
  virtual std::shared_ptr<Mapping> import_memory(const ExportRecord& record, Fd fd) = 0;

  // Hints for managed memory; they change no results. advise() holds until the memory is freed. prefetch() moves pages
  // to the device (or to the host) on the stream, in one go instead of one page fault after the other; within a capture
  // it does nothing, as a graph has no such node. Both throw invalid_argument for memory that is not managed.
  virtual void advise(void* address, std::size_t bytes, Advice advice) = 0;
  virtual void prefetch(void* address, std::size_t bytes, DeviceKind where, Stream stream) = 0;

  // Plain host memory of other processes, which nobody maps: whether kernels of this device can copy from and to it, by
  // remote process addresses (remote_process.hpp). The owner of the memory sends its record; the peer attaches, with
  // the process id that the system knows the owner by. Nothing, and throws unsupported with the reason, where that
  // cannot be.
  virtual std::optional<ProcessRecord> process_record();
  virtual std::shared_ptr<Attachment> attach(const ProcessRecord& record, pid_t pid);

  // --- streams ---
  // Text of the error that idle() and synchronize() throw for a stream that is capturing.
  static constexpr const char* kNothingRunsYet =
      "a stream that is capturing cannot be waited for, nor asked whether it is idle: nothing of it runs before its "
      "graph is launched; end the capture first";
  virtual Stream create_stream() = 0;              // may wait for running kernels (docs/decisions/0005)
  virtual void destroy_stream(Stream stream) = 0;  // after its work has finished
  virtual bool idle(Stream stream) const = 0;      // nothing enqueued is unfinished
  virtual void synchronize(Stream stream) = 0;     // blocks until all enqueued work has finished
  virtual std::shared_ptr<Event> record(Stream stream) = 0;
  // The same, or null inside a capture. On the way of every op, so that the stream is asked about its capture once.
  virtual std::shared_ptr<Event> point(Stream stream) { return capturing(stream) ? nullptr : record(stream); }
  virtual void wait(Stream stream, const std::shared_ptr<Event>& event) = 0;  // stream-ordered: does not block the host

  // --- work ---
  // Makes the kernel ready to run, so that its first launch loads nothing: a GPU may load code only while it is idle,
  // and it is not while a kernel waits for a peer. Call for every kernel before the first op; any number of times. A
  // library that comes where another has been unloaded loads its kernels before it launches them.
  virtual void load(const Kernel& kernel) { static_cast<void>(kernel); }
  // A likely cause of a wait that passed its deadline, as far as the device can know; or "".
  virtual std::string timeout_hint() const { return ""; }
  // Copies between any kinds of memory, ordered on the stream. Plain host memory may make the call block.
  virtual void copy(void* destination, const void* source, std::size_t bytes, Stream stream) = 0;
  // Enqueues a kernel. `arguments` (a trivially copyable struct) is copied before the call returns.
  virtual void launch(const Kernel& kernel, const void* arguments, std::size_t bytes, Grid grid, Stream stream) = 0;
  virtual Behind behind(Stream, bool /*captured*/) const { return {}; }  // its next work
  // Enqueues a host function; it must not call onstream or the driver.
  virtual void call(void (*function)(void*), void* argument, Stream stream) = 0;
  // Enqueues operations on words, in this order; no thread block and no host thread takes part. A wait looks at no
  // deadline and no abort word: the caller sees to it that the word comes (transport/watch.hpp).
  virtual void operate(std::span<const WordOp> ops, Stream stream) = 0;

  // --- capture and replay ---
  // Between begin and end nothing enqueued on the stream runs; it becomes the graph. Not for the default stream. A
  // stream that waits for an event of the capture joins it, until the end on the stream that began. While capturing,
  // idle() and synchronize() throw, and an event is a point of the graph: done() throws. Work that the origin does
  // not wait for fails the end, which ends the capture all the same. Replays of one graph never overlap.
  virtual void begin_capture(Stream stream) = 0;
  virtual std::shared_ptr<Graph> end_capture(Stream stream) = 0;
  virtual bool capturing(Stream stream) const = 0;
  // On a capturing stream only: keeps `thing` alive until the graph, and every launch of it, is over; the program may
  // be the one that captures. It is then let go in a thread of its own (deferred_release.hpp).
  virtual void retain(Stream stream, std::shared_ptr<const void> thing) = 0;
  // As retain(), and launch() asks it first, of this graph and of those that hold it. Captures and launches by the
  // program's own calls ask no guard.
  virtual void guard(Stream stream, std::shared_ptr<const LaunchGuard> guard) = 0;
  virtual void launch(const std::shared_ptr<Graph>& graph, Stream stream) = 0;
};

// For destructors: waits for the stream's work and destroys it. A lost device has none left, and there is nobody to
// tell.
inline void let_go_of(Device& device, Stream stream) noexcept {
  try {
    device.destroy_stream(stream);
  } catch (...) {
  }
}

// Launch with the argument struct's own type.
template <class Arguments>
void launch(Device& device, const Kernel& kernel, const Arguments& arguments, Grid grid, Stream stream) {
  static_assert(std::is_trivially_copyable_v<Arguments>, "kernel arguments are copied as bytes");
  device.launch(kernel, &arguments, sizeof(Arguments), grid, stream);
}

// One operation alone, on a word of 4 or 8 bytes.
template <class Word>
void write_value(Device& device, Word* word, Word value, Stream stream) {
  static_assert(sizeof(Word) == 4 || sizeof(Word) == 8, "streams write words of 4 or 8 bytes");
  const WordOp op{WordAct::write, sizeof(Word), word, value};
  device.operate({&op, 1}, stream);
}
template <class Word>
void wait_value(Device& device, Word* word, Word value, Stream stream) {
  static_assert(sizeof(Word) == 4 || sizeof(Word) == 8, "streams wait for words of 4 or 8 bytes");
  const WordOp op{WordAct::wait_equal, sizeof(Word), word, value};
  device.operate({&op, 1}, stream);
}

// --- the list of devices ---

struct DeviceRow {
  DeviceKind kind;
  int index;
  std::string name;
  std::uint64_t memory_bytes;
};

// Every device of this machine, GPUs first; the host device is always there. Never throws: without a driver or without
// CUDA in the build there are simply no GPUs (no_cuda_reason() says why).
std::vector<DeviceRow> list_devices();

// Why cuda devices are absent: "built without CUDA", "no driver", ... Empty when there are some.
std::string no_cuda_reason();

// The GPU that the calling thread has made current (cudaSetDevice), 0 if none; nothing where there are no GPUs.
std::optional<int> current_gpu();

// How small copies from the CPU to kernels work on devices of a kind, without opening one.
SmallCopies small_copies_of(DeviceKind kind);

// Why no process of this machine can copy from another's plain memory (device/kernel/remote_process.hpp); empty if it
// may work.
std::string no_attach_reason();

// Opens the device that `spec` names: "host", "cuda:N", "cuda" (GPU number local_rank modulo their count), or "auto"
// (cuda if there are GPUs, else host). Throws unsupported with no_cuda_reason().
std::shared_ptr<Device> open_device(const std::string& spec, int local_rank);

}  // namespace onstream
