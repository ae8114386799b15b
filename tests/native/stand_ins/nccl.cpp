// A stand-in for libnccl.so.2 that moves messages through onstream itself, on the host device.
//
// With it the bench's driver of NCCL (bench/message/library_nccl.cpp) runs on a machine without a GPU: grouping,
// capture, every mode, and the check of the data. It has the few functions that the driver calls, and the promise that
// matters: the sends and receives of a group do not wait for each other.
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "onstream/world.hpp"

namespace {

using namespace onstream;

// This library has a copy of onstream of its own, which meets elsewhere than the program's.
Launch own_launch() {
  Launch launch = launch_from_environment();
  launch.address += "-stand-in";
  return launch;
}

struct Queued {
  bool sends;
  void* buffer;
  std::size_t bytes;
  int peer;
  Stream stream;
};

struct Communicator {
  std::shared_ptr<World> world;
  std::vector<std::shared_ptr<Request>> kept;  // of captured windows
};

thread_local int depth = 0;
thread_local Communicator* grouped = nullptr;
thread_local std::vector<Queued> queue;

void post(Communicator& communicator, const std::vector<Queued>& all) {
  std::vector<std::shared_ptr<Request>> requests;
  World& world = *communicator.world;
  for (const Queued& one : all) {
    if (!one.sends) requests.push_back(world.irecv(one.buffer, one.bytes, one.peer, MessageOptions(), one.stream));
  }
  for (const Queued& one : all) {
    if (one.sends) requests.push_back(world.isend(one.buffer, one.bytes, one.peer, MessageOptions(), one.stream));
  }
  for (const auto& request : requests) world.wait(request, all.front().stream);
  if (world.device().capturing(all.front().stream)) {
    communicator.kept.insert(communicator.kept.end(), requests.begin(), requests.end());
  }
}

int enqueue(void* communicator, const Queued& one) {
  grouped = static_cast<Communicator*>(communicator);
  if (depth == 0) {
    post(*grouped, {one});
  } else {
    queue.push_back(one);
  }
  return 0;
}

}  // namespace

extern "C" {

struct StandInUniqueId {
  char bytes[128];
};

int ncclGetVersion(int* version) {
  *version = 20001;
  return 0;
}
int ncclGetUniqueId(StandInUniqueId* id) {
  std::memset(id->bytes, 7, sizeof(id->bytes));
  return 0;
}
int ncclCommInitRank(void** communicator, int size, StandInUniqueId id, int rank) {
  Parameters parameters = Parameters::from_environment();
  parameters.set("device", "host");
  auto made = std::make_unique<Communicator>();
  made->world = World::create(own_launch(), parameters);
  const bool right = id.bytes[127] == 7 && made->world->size() == size && made->world->rank() == rank;
  *communicator = made.release();
  return right ? 0 : 4;  // ncclInvalidArgument
}
int ncclCommDestroy(void* communicator) {
  delete static_cast<Communicator*>(communicator);
  return 0;
}
const char* ncclGetErrorString(int) { return "the stand-in was given a wrong id"; }
int ncclGroupStart() {
  ++depth;
  return 0;
}
int ncclGroupEnd() {
  if (--depth == 0 && !queue.empty()) post(*grouped, std::exchange(queue, {}));
  return 0;
}
int ncclSend(const void* buffer, std::size_t bytes, int, int peer, void* communicator, void* stream) {
  return enqueue(communicator, {true, const_cast<void*>(buffer), bytes, peer, Stream{stream}});
}
int ncclRecv(void* buffer, std::size_t bytes, int, int peer, void* communicator, void* stream) {
  return enqueue(communicator, {false, buffer, bytes, peer, Stream{stream}});
}
int ncclMemAlloc(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory != nullptr ? 0 : 1;
}
int ncclMemFree(void* memory) {
  std::free(memory);
  return 0;
}
int ncclCommRegister(void*, void*, std::size_t, void**) { return 0; }

}  // extern "C"
