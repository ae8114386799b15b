// The cuda device: one GPU behind the device contract. Thread-safe; Device objects of one GPU share its Gpu.
//
// A call on the way of an op (launch, copy, record, wait) makes one driver call to see that the GPU is current in this
// thread, and the CUDA call itself. All of these work on a stream that somebody else captures.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <memory>
#include <mutex>
#include <utility>

#include "onstream/device/cuda/check.hpp"
#include "onstream/device/cuda/cuda.hpp"
#include "onstream/device/cuda/gpu.hpp"
#include "onstream/device/cuda/memory/managed.hpp"
#include "onstream/device/cuda/memory/memory.hpp"
#include "onstream/device/cuda/memory/pins.hpp"
#include "onstream/device/cuda/memory/registry.hpp"
#include "onstream/device/cuda/memory/small.hpp"
#include "onstream/device/cuda/words.hpp"
#include "onstream/device/export.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/device/lifetime/guards.hpp"
#include "onstream/device/memory/managed.hpp"
#include "onstream/device/memory/words.hpp"

namespace onstream {
namespace cuda {

namespace {

// Every stream that enters comes through here. cudaStreamPerThread is one handle for a stream of each thread: the state
// that the library keeps for a stream, by its handle, would be mixed up among them.
cudaStream_t handle_of(Stream stream) {
  const auto handle = static_cast<cudaStream_t>(stream.handle);
  require(
      handle != cudaStreamPerThread,
      "cudaStreamPerThread stands for another stream in each thread, so the order of its work cannot be kept; make a "
      "stream (cudaStreamCreateWithFlags, or the device's create_stream()) and use that");
  return handle;
}

class CudaEvent final : public Event {
 public:
  CudaEvent(Gpu& gpu, bool captured) : gpu_(gpu), event_(gpu.take_event()), captured_(captured) {}
  // An event recorded in a capture refers to its graph until the capture ends: another thread must not record it anew.
  ~CudaEvent() override {
    if (captured_) {
      gpu_.drop_event(event_);
    } else {
      gpu_.give_event(event_);
    }
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  cudaEvent_t handle() const { return event_; }

  // Recorded in a capture: a point of the graph. Asking CUDA about it would break the capture.
  bool captured() const { return captured_; }

  bool done() const override {
    require(!captured_, "done: the event was recorded in a capture, so it marks a point of the graph, not of a stream");
    const ControlPath path(gpu_);
    return is_ready(cudaEventQuery(event_), "asking GPU ", gpu_.ordinal(), " whether an event is done");
  }

 private:
  Gpu& gpu_;
  cudaEvent_t event_;
  bool captured_;
};

class CudaGraph final : public Graph {
 public:
  CudaGraph(Gpu& gpu, cudaGraphExec_t graph, std::size_t nodes, LaunchGuards guards)
      : gpu_(gpu), graph_(graph), nodes_(nodes), guards_(std::move(guards)) {}
  ~CudaGraph() override {
    try {
      const ControlPath path(gpu_);
      if (cudaGraphExecDestroy(graph_) != cudaSuccess) forget_error();  // launches in flight finish all the same
    } catch (...) {
      // Only while the process ends: CUDA is gone already.
    }
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  std::size_t nodes() const override { return nodes_; }
  const LaunchGuards& guards() const { return guards_; }
  void launch(cudaStream_t stream) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    check(cudaGraphLaunch(graph_, stream), "launching a graph on GPU ", gpu_.ordinal());
  }

 private:
  Gpu& gpu_;
  cudaGraphExec_t graph_;
  std::size_t nodes_;
  LaunchGuards guards_;
  mutable std::mutex mutex_;  // CUDA leaves it to the caller that one thread at a time touches a graph
};

// The graph that a stream is captured into; null if it is not captured, or the capture has failed already.
struct UnderCapture {
  cudaGraph_t graph = nullptr;
  unsigned long long id = 0;  // of the capture, never again in this process
  std::size_t behind = 0;     // nodes that the stream's next work comes behind
};
UnderCapture under_capture(cudaStream_t stream, const Gpu& gpu) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  UnderCapture found;
  const cudaGraphNode_t* nodes = nullptr;
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData* edges = nullptr;  // asked for, as edges that say something may not be left out
  check(cudaStreamGetCaptureInfo(stream, &status, &found.id, &found.graph, &nodes, &edges, &found.behind),
        "asking GPU ", gpu.ordinal(), " which graph a stream is captured into");
#else
  check(cudaStreamGetCaptureInfo_v2(stream, &status, &found.id, &found.graph, &nodes, &found.behind), "asking GPU ",
        gpu.ordinal(), " which graph a stream is captured into");
#endif
  return status == cudaStreamCaptureStatusActive ? found : UnderCapture();
}

// An object that a graph keeps alive; CUDA calls it a user object. CUDA calls this when the last graph, executable and
// launch is over; it must not call CUDA back, which releasing the thing may.
using Retained = std::shared_ptr<const void>;
void CUDART_CB let_go(void* object) {
  const std::unique_ptr<Retained> retained(static_cast<Retained*>(object));
  DeferredRelease::of_process().hand_over(std::move(*retained));
}

// A graph as captured, until it is made executable.
class Template {
 public:
  explicit Template(cudaGraph_t graph) : graph_(graph) {}
  ~Template() {
    if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
  }
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;
  cudaGraph_t get() const { return graph_; }

 private:
  cudaGraph_t graph_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal) : gpu_(Gpu::of(ordinal)), smalls_(gpu_) {}

  DeviceKind kind() const override { return DeviceKind::cuda; }
  int index() const override { return gpu_.ordinal(); }
  std::string name() const override { return gpu_.name(); }
  std::string identity() const override { return gpu_.uuid(); }
  int max_blocks() const override { return gpu_.multiprocessors(); }
  std::vector<std::string> whole_lines_to() const override { return gpu_.whole_lines_to(); }

  std::shared_ptr<Memory> allocate(std::size_t bytes, MemoryKind kind) override {
    return cuda::allocate(gpu_, bytes, kind);
  }
  std::shared_ptr<SmallMemory> allocate_small(std::size_t bytes) override { return smalls_.allocate(bytes); }
  SmallCopies small_copies() const override { return smalls_.how(); }
  MemoryInfo inspect(const void* address) const override { return cuda::inspect(gpu_, address); }
  std::size_t free_bytes() const override {
    const Current current(gpu_);
    std::size_t free = 0;
    std::size_t all = 0;
    check(cudaMemGetInfo(&free, &all), "asking how much memory of GPU ", gpu_.ordinal(), " is free");
    return free;
  }
  std::uint64_t frees() const override { return own_removals(); }
  bool counts_frees_of(const MemoryInfo& info) const override { return is_own(info.id); }
  std::shared_ptr<void> pin(const void* address, std::size_t bytes) override { return cuda::pin(gpu_, address, bytes); }
  Export export_memory(const MemoryInfo& info) override { return cuda::export_memory(gpu_, info); }
  std::shared_ptr<Mapping> import_memory(const ExportRecord& record, Fd fd) override {
    return cuda::import_memory(gpu_, record, std::move(fd));
  }

  void advise(void* address, std::size_t bytes, Advice advice) override;
  void prefetch(void* address, std::size_t bytes, DeviceKind where, Stream stream) override;

  Stream create_stream() override;
  void destroy_stream(Stream stream) override;
  bool idle(Stream stream) const override;
  void synchronize(Stream stream) override;
  std::shared_ptr<Event> record(Stream stream) override;
  std::shared_ptr<Event> point(Stream stream) override;
  void wait(Stream stream, const std::shared_ptr<Event>& event) override;

  void load(const Kernel& kernel) override;
  std::string timeout_hint() const override;
  void copy(void* destination, const void* source, std::size_t bytes, Stream stream) override;
  void launch(const Kernel& kernel, const void* arguments, std::size_t bytes, Grid grid, Stream stream) override;
  Behind behind(Stream stream, bool captured) const override;
  void call(void (*function)(void*), void* argument, Stream stream) override;
  void operate(std::span<const WordOp> ops, Stream stream) override;

  void begin_capture(Stream stream) override;
  std::shared_ptr<Graph> end_capture(Stream stream) override;
  bool capturing(Stream stream) const override;
  void retain(Stream stream, std::shared_ptr<const void> thing) override;
  void guard(Stream stream, std::shared_ptr<const LaunchGuard> guard) override;
  void launch(const std::shared_ptr<Graph>& graph, Stream stream) override;

 private:
  // All with the GPU current already.
  enum class CaptureState { no, yes, barred };  // barred: the default stream, while one that waits for it is captured
  CaptureState captured(Stream stream) const;
  bool capturing_here(Stream stream) const { return captured(stream) == CaptureState::yes; }
  // Throws where the stream is barred: CUDA would break the other one's capture.
  CaptureState captured_if_not_barred(Stream stream) const;
  std::shared_ptr<Event> record(Stream stream, CaptureState captured);

  Gpu& gpu_;
  SmallMemories smalls_;
};

void CudaDevice::advise(void* address, std::size_t bytes, Advice advice) {
  require_managed("advise", inspect(address), address, bytes);
  if (bytes == 0) return;
  const ControlPath path(gpu_);
  advise_managed(gpu_, address, bytes, advice);
}

void CudaDevice::prefetch(void* address, std::size_t bytes, DeviceKind where, Stream stream) {
  require_managed("prefetch", inspect(address), address, bytes);
  const Current current(gpu_);
  if (bytes == 0 || capturing_here(stream)) return;
  prefetch_managed(gpu_, address, bytes, where, handle_of(stream));
}

Stream CudaDevice::create_stream() {
  const ControlPath path(gpu_);
  return Stream{gpu_.take_stream()};
}

void CudaDevice::destroy_stream(Stream stream) {
  require(stream.handle != nullptr, "destroy_stream: the default stream cannot be destroyed");
  const ControlPath path(gpu_);
  if (capturing_here(stream)) {  // the capture is dropped
    cudaGraph_t captured = nullptr;
    (void)gpu_.captures().end(handle_of(stream));
    if (cudaStreamEndCapture(handle_of(stream), &captured) != cudaSuccess) forget_error();
    const Template dropped(captured);
  }
  check(cudaStreamSynchronize(handle_of(stream)), "finishing a stream of GPU ", gpu_.ordinal(),
        " before destroying it");
  gpu_.give_stream(handle_of(stream));
}

bool CudaDevice::idle(Stream stream) const {
  const ControlPath path(gpu_);
  // Asking a capturing stream would break the capture.
  require(captured_if_not_barred(stream) == CaptureState::no, kNothingRunsYet);
  return is_ready(cudaStreamQuery(handle_of(stream)), "asking GPU ", gpu_.ordinal(), " whether a stream is idle");
}

void CudaDevice::synchronize(Stream stream) {
  const ControlPath path(gpu_);
  require(captured_if_not_barred(stream) == CaptureState::no, kNothingRunsYet);
  check(cudaStreamSynchronize(handle_of(stream)), "synchronising a stream of GPU ", gpu_.ordinal());
}

std::shared_ptr<Event> CudaDevice::record(Stream stream) {
  const Current current(gpu_);
  return record(stream, captured_if_not_barred(stream));
}

std::shared_ptr<Event> CudaDevice::point(Stream stream) {
  const Current current(gpu_);
  const CaptureState captured = captured_if_not_barred(stream);
  return captured == CaptureState::yes ? nullptr : record(stream, captured);
}

std::shared_ptr<Event> CudaDevice::record(Stream stream, CaptureState captured) {
  auto event = std::make_shared<CudaEvent>(gpu_, captured == CaptureState::yes);
  check(cudaEventRecord(event->handle(), handle_of(stream)), "recording an event on GPU ", gpu_.ordinal());
  return event;
}

void CudaDevice::wait(Stream stream, const std::shared_ptr<Event>& event) {
  const auto* mine = dynamic_cast<const CudaEvent*>(event.get());
  require(mine != nullptr, "wait: ", event ? "the event belongs to another kind of device" : "the event is null");
  const Current current(gpu_);
  const cudaError_t result = cudaStreamWaitEvent(handle_of(stream), mine->handle(), 0);
  if (result != cudaSuccess && mine->captured()) {
    forget_error();
    fail(ErrorCode::invalid_argument,
         "wait: the event was recorded in a capture that has ended, or that another stream ",
         "cannot join: ", text_of(result));
  }
  check(result, "making a stream of GPU ", gpu_.ordinal(), " wait for an event");
}

void CudaDevice::load(const Kernel& kernel) {
  if (kernel.cuda == nullptr) fail(ErrorCode::unsupported, "kernel ", kernel.name, " was not built for CUDA");
  const ControlPath path(gpu_);
  cudaFuncAttributes attributes{};
  const cudaError_t result = cudaFuncGetAttributes(&attributes, kernel.cuda);
  if (result == cudaErrorNoKernelImageForDevice || result == cudaErrorInvalidDeviceFunction) {
    forget_error();
    fail(ErrorCode::unsupported, "kernel ", kernel.name, " holds no code for GPU ", gpu_.ordinal(), " (", gpu_.name(),
         "): build with -DONSTREAM_CUDA_ARCHITECTURES=", gpu_.capability(),
         ", and a program's own kernels with -arch=sm_", gpu_.capability());
  }
  check(result, "loading kernel ", kernel.name, " on GPU ", gpu_.ordinal());
  const CUfunction function = gpu_.look_up(kernel);
  if (driver().func_load == nullptr) return;  // asking for the attributes has loaded it
  check(driver().func_load(function), "loading kernel ", kernel.name, " on GPU ", gpu_.ordinal());
}

std::string CudaDevice::timeout_hint() const {
  try {
    gpu_.check_alive();
  } catch (const Error& error) {
    return concat("a kernel has failed, and with it all that this process runs there: ", error.what());
  }
  CUmoduleLoadingMode mode = CU_MODULE_EAGER_LOADING;
  std::size_t stack_bytes = 1024;
  static_cast<void>(driver().module_get_loading_mode(&mode));
  if (cudaDeviceGetLimit(&stack_bytes, cudaLimitStackSize) != cudaSuccess) forget_error();
  const char* loading =
      mode == CU_MODULE_LAZY_LOADING ? "to load it (CUDA_MODULE_LOADING=EAGER loads it earlier), or " : "";
  return concat(
      "CUDA may wait for all running kernels to end before it first launches a kernel, ", loading,
      "to make room if it needs more than ", stack_bytes,
      " B of stack or calls malloc; and before it makes a stream or a graph executable, if a thread of this process "
      "does. If a rank did that beside a wait, launch such a kernel once, and make all ranks' streams and graphs, "
      "before");
}

void CudaDevice::copy(void* destination, const void* source, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  require(destination != nullptr && source != nullptr, "copy of ", bytes, " B: the ",
          destination == nullptr ? "destination" : "source", " is null");
  const Current current(gpu_);
  check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, handle_of(stream)), "copying ", bytes,
        " B from ", source, " to ", destination, " on GPU ", gpu_.ordinal());
}

void CudaDevice::launch(const Kernel& kernel, const void* arguments, std::size_t bytes, Grid grid, Stream stream) {
  if (kernel.cuda == nullptr) fail(ErrorCode::unsupported, "kernel ", kernel.name, " was not built for CUDA");
  require(grid.blocks > 0 && grid.threads > 0 && grid.threads <= kMaxThreads, "kernel ", kernel.name, ": a grid of ",
          grid.blocks, " blocks of ", grid.threads, " threads; at least 1 block of 1 to ", kMaxThreads, " threads");
  require(arguments != nullptr, "kernel ", kernel.name, ": the arguments are null");
  const Current current(gpu_);
  void* parameters[] = {const_cast<void*>(arguments)};
  CUlaunchAttribute early{};  // cuda_entry waits for the stream's earlier work itself
  early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(grid.blocks);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(grid.threads);
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = handle_of(stream);
  config.attrs = &early;
  config.numAttrs = gpu_.capability() >= 90 ? 1 : 0;
  gpu_.launches(handle_of(stream)).fetch_add(1, std::memory_order_relaxed);
  check(driver().launch_kernel(&config, gpu_.function_of(kernel), parameters, nullptr), "launching kernel ",
        kernel.name, " (", bytes, " B of arguments, ", grid.blocks, " blocks of ", grid.threads, " threads) on GPU ",
        gpu_.ordinal());
}

Behind CudaDevice::behind(Stream stream, bool captured) const {
  Behind out;
  out.launches = gpu_.launches(handle_of(stream)).load(std::memory_order_relaxed);
  if (!captured) return out;
  const Current current(gpu_);
  const UnderCapture capture = under_capture(handle_of(stream), gpu_);
  out.capture = capture.id;
  out.joins = capture.behind > 1;
  return out;
}

void CudaDevice::call(void (*function)(void*), void* argument, Stream stream) {
  require(function != nullptr, "call: the function is null");
  const Current current(gpu_);
  check(cudaLaunchHostFunc(handle_of(stream), function, argument), "enqueueing a host function on GPU ",
        gpu_.ordinal());
}

void CudaDevice::operate(std::span<const WordOp> ops, Stream stream) {
  for (const WordOp& op : ops) check_word(op);
  const Current current(gpu_);
  operate_on_words(gpu_, ops, handle_of(stream));
}

void CudaDevice::begin_capture(Stream stream) {
  require(stream.handle != nullptr, "begin_capture: CUDA cannot capture the default stream; use create_stream()");
  const Current current(gpu_);
  require(!capturing_here(stream), "begin_capture: the stream is capturing already");
  // Thread-local: other threads of the process may allocate and query meanwhile.
  check(cudaStreamBeginCapture(handle_of(stream), cudaStreamCaptureModeThreadLocal), "beginning a capture on GPU ",
        gpu_.ordinal());
  gpu_.captures().begin(handle_of(stream), under_capture(handle_of(stream), gpu_).id);
}

std::shared_ptr<Graph> CudaDevice::end_capture(Stream stream) {
  const Current current(gpu_);
  require(capturing_here(stream), "end_capture: the stream is not capturing");
  cudaGraph_t captured = nullptr;
  const cudaError_t result = cudaStreamEndCapture(handle_of(stream), &captured);
  // One that cannot be ended here (another thread's, or another stream's) goes on.
  LaunchGuards guards;
  if (result == cudaSuccess || !capturing_here(stream)) guards = gpu_.captures().end(handle_of(stream));
  check(result, "ending a capture on GPU ", gpu_.ordinal());
  const Template graph(captured);
  const ControlPath path(gpu_);
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph.get(), 0), "making a captured graph executable on GPU ",
        gpu_.ordinal());
  std::size_t nodes = 0;
  if (cudaGraphGetNodes(graph.get(), nullptr, &nodes) != cudaSuccess) forget_error();
  auto out = std::make_shared<CudaGraph>(gpu_, executable, nodes, std::move(guards));
  // Now, and in the stream that will most likely launch it: a first launch with more to do than that may not start
  // before running kernels end, which wait for it where ranks share a GPU (up to 6 % of first launches measured).
  const bool busy = cudaStreamQuery(handle_of(stream)) != cudaSuccess;
  if (busy) forget_error();
  gpu_.upload(executable, busy ? nullptr : handle_of(stream));
  return out;
}

bool CudaDevice::capturing(Stream stream) const {
  const Current current(gpu_);
  return capturing_here(stream);
}

CudaDevice::CaptureState CudaDevice::captured(Stream stream) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t result = cudaStreamIsCapturing(handle_of(stream), &status);
  if (result == cudaErrorStreamCaptureImplicit) {
    forget_error();
    return CaptureState::barred;
  }
  check(result, "asking GPU ", gpu_.ordinal(), " whether a stream is being captured");
  return status == cudaStreamCaptureStatusNone ? CaptureState::no : CaptureState::yes;
}

CudaDevice::CaptureState CudaDevice::captured_if_not_barred(Stream stream) const {
  const CaptureState found = captured(stream);
  require(found != CaptureState::barred,
          "the default stream cannot be used while another stream of the GPU is captured that waits for it; make the "
          "other one with cudaStreamNonBlocking");
  return found;
}

void CudaDevice::retain(Stream stream, std::shared_ptr<const void> thing) {
  const Current current(gpu_);
  const cudaGraph_t graph = under_capture(handle_of(stream), gpu_).graph;
  require(graph != nullptr, "retain: the stream is not capturing, so there is no graph that could keep anything");
  auto retained = std::make_unique<Retained>(std::move(thing));
  cudaUserObject_t object = nullptr;
  check(cudaUserObjectCreate(&object, retained.get(), &let_go, 1, cudaUserObjectNoDestructorSync),
        "making an object for a graph of GPU ", gpu_.ordinal(), " to keep");
  static_cast<void>(retained.release());  // the object's now
  const cudaError_t given = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
  if (given != cudaSuccess) static_cast<void>(cudaUserObjectRelease(object, 1));
  check(given, "giving a captured graph of GPU ", gpu_.ordinal(), " what it uses");
}

void CudaDevice::guard(Stream stream, std::shared_ptr<const LaunchGuard> guard) {
  const Current current(gpu_);
  const UnderCapture capture = under_capture(handle_of(stream), gpu_);
  require(capture.graph != nullptr, "guard: the stream is not capturing, so there is no graph that it could belong to");
  if (gpu_.captures().add(capture.id, guard)) retain(stream, std::move(guard));
}

void CudaDevice::launch(const std::shared_ptr<Graph>& graph, Stream stream) {
  const auto* mine = dynamic_cast<const CudaGraph*>(graph.get());
  require(mine != nullptr, "launch: ", graph ? "the graph belongs to another kind of device" : "the graph is null");
  const Current current(gpu_);
  ask(mine->guards(), *this, stream);
  mine->launch(handle_of(stream));
}

}  // namespace
}  // namespace cuda

std::shared_ptr<Device> open_cuda(int ordinal) { return std::make_shared<cuda::CudaDevice>(ordinal); }

std::vector<DeviceRow> list_cuda() {
  std::vector<DeviceRow> rows;
  std::string why_none;
  const int count = cuda::count_gpus(why_none);
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) {
      cuda::forget_error();
      rows.push_back({DeviceKind::cuda, i, "unreadable GPU", 0});
      continue;
    }
    rows.push_back({DeviceKind::cuda, i, properties.name, properties.totalGlobalMem});
  }
  return rows;
}

namespace cuda {
namespace {

// The GPU that the program's own CUDA runtime, if dlsym finds one, has chosen for this thread. Before CUDA 12 its
// cudaSetDevice chooses a GPU and makes no context yet, so the driver does not know.
int chosen_gpu() {
  const auto get_device = reinterpret_cast<decltype(&::cudaGetDevice)>(::dlsym(RTLD_DEFAULT, "cudaGetDevice"));
  int chosen = 0;
  if (get_device == nullptr || get_device(&chosen) != cudaSuccess) return 0;
  return chosen;
}

}  // namespace
}  // namespace cuda

// Asked of the driver: another CUDA runtime in the process, the program's own, may have made it current.
std::optional<int> current_cuda() {
  std::string why_none;
  if (cuda::count_gpus(why_none) == 0) return std::nullopt;
  CUcontext context = nullptr;
  cuda::check(cuda::driver().ctx_get_current(&context), "asking for this thread's current GPU");
  if (context == nullptr) return cuda::chosen_gpu();
  CUdevice device = 0;
  cuda::check(cuda::driver().ctx_get_device(&device), "asking for this thread's current GPU");
  return device;
}

SmallCopies cuda_small_copies() { return cuda::SmallMemories::wanted(); }

std::string why_no_cuda() {
  std::string why_none;
  return cuda::count_gpus(why_none) > 0 ? std::string() : why_none;
}

}  // namespace onstream
