// A Gpu: this process's state of one GPU, shared by all its Device objects.
//
// Made on first use and kept until the process ends, as the CUDA runtime itself keeps a GPU's primary context; so every
// Memory, Event and Graph may refer to it for ever. Current and ControlPath are the two ways to call CUDA on it.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/device/cuda/captures.hpp"
#include "onstream/device/cuda/driver.hpp"
#include "onstream/device/cuda/functions.hpp"
#include "onstream/device/cuda/memory/managed_room.hpp"

namespace onstream::cuda {

class Gpu {
 public:
  // The GPU of that ordinal, its context made if need be. Leaves the calling thread's current GPU as it was; a thread
  // without one gets this GPU, as from cudaSetDevice, so that its later calls need not switch. Throws.
  static Gpu& of(int ordinal);

  int ordinal() const { return ordinal_; }
  CUdevice device() const { return device_; }
  CUcontext context() const { return context_; }
  const std::string& name() const { return name_; }
  const std::string& uuid() const { return uuid_; }
  int multiprocessors() const { return multiprocessors_; }
  int capability() const { return capability_; }                                      // 90 for compute capability 9.0
  const std::vector<std::string>& whole_lines_to() const { return whole_lines_to_; }  // by uuid
  std::uint64_t memory_bytes() const { return memory_bytes_; }
  // Registered host memory has one address for host and kernels.
  bool one_host_address() const { return one_host_address_; }
  bool exports_by_fd() const { return exports_by_fd_; }
  // The driver hands out host memory that it maps itself. Not in containers that forbid it to choose a NUMA node.
  bool maps_host_memory() const { return maps_host_memory_; }
  int numa_node() const { return numa_node_; }  // of the host memory next to this GPU; -1 unknown
  bool rdma() const { return rdma_; }
  // CPU and kernels may use managed memory at the same time.
  bool shares_managed() const { return shares_managed_; }
  // The GPUs that can address this one's memory, itself first.
  const std::vector<int>& reached_by() const { return reached_by_; }
  const std::vector<int>& all_of_process() const { return all_; }

  // Lets this GPU's kernels address plain cudaMalloc memory of another GPU of the process. Throws unsupported if the
  // machine cannot. Any number of times.
  void enable_peer(int other);
  bool reaches(int other) const;    // plain memory: enable_peer() was called, or `other` is itself
  bool may_reach(int other) const;  // memory that other GPUs were given access to when it was made

  // The managed memory that this process holds there.
  struct Managed {
    std::mutex mutex;
    ManagedRoom room;
  };
  Managed& managed() { return managed_; }
  Captures& captures() { return captures_; }
  // Kernels that were launched on a stream. Few counters for all: some streams share one.
  std::atomic<std::uint64_t>& launches(cudaStream_t stream) {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // Fibonacci hashing: Knuth, TAOCP volume 3, 6.4
    return launches_[reinterpret_cast<std::uintptr_t>(stream) * kGolden >> 54];
  }

  // On a stream of its own, never behind anybody's work, and finished when the call returns: sets memory to zero; makes
  // a graph resident, on `idle` if that is a stream.
  void zero(void* address, std::size_t bytes);
  void upload(cudaGraphExec_t graph, cudaStream_t idle);
  // Throws system if a kernel, of whomever, has faulted: nothing runs on this GPU for this process any more.
  void check_alive() const;

  // The driver's handle of a kernel, with the GPU current; look_up() as the runtime library has it now. Throws.
  CUfunction function_of(const Kernel& kernel);
  CUfunction look_up(const Kernel& kernel);

  // Streams, kept for reuse: all streams of a process share 32 hardware queues, given out in turn, and work that two
  // streams put into one queue waits for each other's. One that is given back has nothing unfinished.
  cudaStream_t take_stream();
  void give_stream(cudaStream_t stream) noexcept;

  // Timing-free events, kept for reuse: making one costs more than recording it.
  cudaEvent_t take_event();
  void give_event(cudaEvent_t event) noexcept;
  void drop_event(cudaEvent_t event) noexcept;  // not to be used again

 private:
  explicit Gpu(int ordinal);
  void read_properties();
  void find_peers();
  void find_whole_lines();
  void try_host_memory();
  void load_driver_kernels();
  template <class Handle>
  std::optional<Handle> take_spare(std::vector<Handle>& spares);
  template <class Handle>
  bool keep_spare(std::vector<Handle>& spares, Handle handle) noexcept;

  int ordinal_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::string name_;
  std::string uuid_;  // 16 bytes as hexadecimal digits
  int multiprocessors_ = 0;
  int capability_ = 0;
  std::vector<std::string> whole_lines_to_;
  std::uint64_t memory_bytes_ = 0;
  bool one_host_address_ = false;
  bool exports_by_fd_ = false;
  int numa_node_ = -1;
  bool maps_host_memory_ = false;
  bool rdma_ = false;
  bool shares_managed_ = false;
  std::vector<int> all_;
  std::vector<int> reached_by_;
  std::vector<int> may_reach_;
  cudaStream_t own_stream_ = nullptr;
  Functions functions_;

  Managed managed_;
  std::array<std::atomic<std::uint64_t>, 1024> launches_{};
  Captures captures_;
  mutable std::mutex mutex_;  // guards all below
  std::set<int> peers_;
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
};

// How many GPUs there are, after setting the environment that CUDA reads when it starts; zero and the reason in
// `why_none` if none. Never throws.
int count_gpus(std::string& why_none);

// The GPU's context is current in this thread for a scope. A driver call and not cudaSetDevice, which on the way back
// would make a context on GPU 0 for a thread that never chose a GPU.
class Current {
 public:
  explicit Current(const Gpu& gpu);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  CUcontext previous_ = nullptr;
  CUcontext mine_;
};

// The same, and calls that a capture forbids in the meantime (allocating, mapping, querying) are allowed: they touch no
// stream that anybody captures, and the capture may be another thread's.
class ControlPath {
 public:
  explicit ControlPath(const Gpu& gpu);
  ~ControlPath();
  ControlPath(const ControlPath&) = delete;
  ControlPath& operator=(const ControlPath&) = delete;

 private:
  Current current_;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace onstream::cuda
