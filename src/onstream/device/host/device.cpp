// The Device contract on the host: checks arguments and hands on to memory.cpp, stream.cpp and graph.cpp.
#include "onstream/device/host/device.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/base/fork_guard.hpp"
#include "onstream/device/export.hpp"
#include "onstream/device/host/attach.hpp"
#include "onstream/device/host/memory.hpp"
#include "onstream/device/host/stream.hpp"
#include "onstream/device/memory/managed.hpp"
#include "onstream/device/memory/small.hpp"
#include "onstream/device/memory/words.hpp"

namespace onstream::host {
namespace {

std::string cpu_name() {
  const std::string info = contents_of("/proc/cpuinfo");
  for (const std::string_view line : lines_of(info)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return std::string(line.substr(colon + 2));
  }
  utsname machine{};
  return uname(&machine) == 0 ? machine.machine : "CPU";  // other architectures have no model name
}

class HostDevice final : public Device {
 public:
  // --- properties ---
  DeviceKind kind() const override { return DeviceKind::host; }
  int index() const override { return 0; }
  std::string name() const override { return device_name(); }
  int max_blocks() const override { return 1; }

  // --- memory ---
  std::shared_ptr<Memory> allocate(std::size_t bytes, MemoryKind kind) override { return host::allocate(bytes, kind); }
  std::shared_ptr<SmallMemory> allocate_small(std::size_t bytes) override {
    return std::make_shared<AddressedSmallMemory>(host::allocate(bytes, MemoryKind::pinned));
  }
  SmallCopies small_copies() const override { return host::small_copies(); }
  MemoryInfo inspect(const void* address) const override { return host::inspect(address); }
  std::uint64_t frees() const override { return SharedRanges::of_process().removals(); }
  bool counts_frees_of(const MemoryInfo&) const override { return true; }
  Export export_memory(const MemoryInfo& info) override { return host::export_memory(info); }
  std::shared_ptr<Mapping> import_memory(const ExportRecord& record, Fd fd) override {
    return host::import_memory(record, std::move(fd));
  }

  // Managed memory of the host is where it is.
  void advise(void* address, std::size_t bytes, Advice advice) override;
  void prefetch(void* address, std::size_t bytes, DeviceKind where, onstream::Stream stream) override;

  std::optional<ProcessRecord> process_record() override { return host::process_record(); }
  std::shared_ptr<Attachment> attach(const ProcessRecord& record, pid_t pid) override {
    return host::attach(record, pid);
  }

  // --- streams ---
  onstream::Stream create_stream() override {
    auto made = std::make_unique<HostStream>();
    const onstream::Stream handle{made.get()};
    const std::lock_guard lock(mutex_);
    streams_.emplace(handle.handle, std::move(made));
    return handle;
  }
  void destroy_stream(onstream::Stream stream) override;
  bool idle(onstream::Stream stream) const override { return of(stream).idle(); }
  void synchronize(onstream::Stream stream) override { of(stream).synchronize(); }
  std::shared_ptr<onstream::Event> record(onstream::Stream stream) override { return of(stream).record(); }
  void wait(onstream::Stream stream, const std::shared_ptr<onstream::Event>& event) override;

  // --- work ---
  void copy(void* destination, const void* source, std::size_t bytes, onstream::Stream stream) override;
  void launch(const Kernel& kernel, const void* arguments, std::size_t bytes, Grid grid,
              onstream::Stream stream) override;
  void call(void (*function)(void*), void* argument, onstream::Stream stream) override;
  void operate(std::span<const WordOp> ops, onstream::Stream stream) override;

  // --- capture and replay ---
  void begin_capture(onstream::Stream stream) override {
    require(stream.handle != nullptr,
            "begin_capture() of the default stream: CUDA cannot do that, so no device does; use create_stream()");
    of(stream).begin_capture();
  }
  std::shared_ptr<onstream::Graph> end_capture(onstream::Stream stream) override { return of(stream).end_capture(); }
  bool capturing(onstream::Stream stream) const override { return of(stream).capturing(); }
  void retain(onstream::Stream stream, std::shared_ptr<const void> thing) override {
    of(stream).retain(std::move(thing));
  }
  void guard(onstream::Stream stream, std::shared_ptr<const LaunchGuard> guard) override {
    of(stream).guard(std::move(guard));
  }
  void launch(const std::shared_ptr<onstream::Graph>& graph, onstream::Stream stream) override;

 private:
  HostStream& of(onstream::Stream stream) const {
    guard_.check("this host device");
    return stream.handle == nullptr ? default_stream_ : *static_cast<HostStream*>(stream.handle);
  }

  const ForkGuard guard_;  // its streams have threads
  mutable HostStream default_stream_;
  std::mutex mutex_;
  std::unordered_map<void*, std::unique_ptr<HostStream>> streams_;
};

void HostDevice::destroy_stream(onstream::Stream stream) {
  if (guard_.in_child()) return;
  std::unique_ptr<HostStream> owned;  // destroyed, and so waited for, without the lock
  {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(stream.handle);
    require(found != streams_.end(), "destroy_stream() of ", stream.handle,
            ", which is no stream that this device created, or is destroyed already");
    owned = std::move(found->second);
    streams_.erase(found);
  }
}

void HostDevice::wait(onstream::Stream stream, const std::shared_ptr<onstream::Event>& event) {
  const auto known = std::dynamic_pointer_cast<HostEvent>(event);
  require(known != nullptr, "wait() for an event that is null or of another kind of device");
  of(stream).wait(known);
}

void HostDevice::advise(void* address, std::size_t bytes, Advice) {
  require_managed("advise", inspect(address), address, bytes);
}

void HostDevice::prefetch(void* address, std::size_t bytes, DeviceKind, onstream::Stream) {
  require_managed("prefetch", inspect(address), address, bytes);
}

void HostDevice::copy(void* destination, const void* source, std::size_t bytes, onstream::Stream stream) {
  if (bytes == 0) return;
  require(destination != nullptr && source != nullptr, "copy() of ", bytes, " B from ", source, " to ", destination,
          ": neither may be null");
  of(stream).enqueue(CopyTask{destination, source, bytes});
}

void HostDevice::launch(const Kernel& kernel, const void* arguments, std::size_t bytes, Grid grid,
                        onstream::Stream stream) {
  require(kernel.host != nullptr, "launch() of the kernel '", kernel.name, "', which has no body for the host device");
  require(grid.blocks >= 1 && grid.threads >= 1, "launch() of the kernel '", kernel.name, "' with ", grid.blocks,
          " blocks of ", grid.threads, " threads; both must be at least 1");
  require(arguments != nullptr || bytes == 0, "launch() of the kernel '", kernel.name, "' with ", bytes,
          " B of arguments at a null address");
  of(stream).enqueue(KernelTask{kernel.host, grid.blocks, Arguments(arguments, bytes)});
}

void HostDevice::call(void (*function)(void*), void* argument, onstream::Stream stream) {
  require(function != nullptr, "call() of a null function");
  of(stream).enqueue(CallTask{function, argument});
}

void HostDevice::operate(std::span<const WordOp> ops, onstream::Stream stream) {
  if (ops.empty()) return;
  for (const WordOp& op : ops) check_word(op);
  of(stream).enqueue(WordTask{std::make_shared<const std::vector<WordOp>>(ops.begin(), ops.end())});
}

void HostDevice::launch(const std::shared_ptr<onstream::Graph>& graph, onstream::Stream stream) {
  auto known = std::dynamic_pointer_cast<HostGraph>(graph);
  require(known != nullptr, "launch() of a graph that is null or of another kind of device");
  ask(known->guards(), *this, stream);
  of(stream).enqueue(GraphTask{std::move(known)});
}

}  // namespace

std::shared_ptr<Device> open() { return std::shared_ptr<Device>(new HostDevice, LeftToParent()); }

SmallCopies small_copies() { return {"stores", "kernels of the host device run on the CPU"}; }

std::string device_name() {
  const unsigned cores = std::thread::hardware_concurrency();
  return concat(cpu_name(), " (", cores, cores == 1 ? " core)" : " cores)");
}

std::uint64_t memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes) : 0;
}

}  // namespace onstream::host
