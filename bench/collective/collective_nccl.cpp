// NCCL's collectives under measurement: the few declarations of its public interface (2.19 and newer), opened at run
// time. Buffers come from ncclMemAlloc and are registered; with a library of 2.27 or newer also as symmetric windows,
// which is the best it offers. NCCL has no deadlines: the driver of the bench ends a run that hangs.
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "collective_library.hpp"
#include "onstream/base/error.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/device.hpp"
#include "support/options.hpp"
#include "support/shared_object.hpp"

namespace onstream::bench {

namespace {

struct UniqueId {
  std::array<char, 128> bytes;
};
using Communicator = void*;
constexpr int kSymmetric = 1;  // NCCL_WIN_COLL_SYMMETRIC

struct Nccl {
  int (*get_version)(int*);
  int (*get_unique_id)(UniqueId*);
  int (*init_rank)(Communicator*, int, UniqueId, int);
  int (*destroy)(Communicator);
  const char* (*error_string)(int);
  int (*mem_alloc)(void**, std::size_t);
  int (*mem_free)(void*);
  int (*reg)(Communicator, void*, std::size_t, void**);
  int (*all_reduce)(const void*, void*, std::size_t, int, int, Communicator, void*);
  int (*reduce)(const void*, void*, std::size_t, int, int, int, Communicator, void*);
  int (*broadcast)(const void*, void*, std::size_t, int, int, Communicator, void*);
  int (*all_gather)(const void*, void*, std::size_t, int, Communicator, void*);
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, Communicator, void*);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void*, std::size_t, int, int, Communicator, void*);
  int (*recv)(void*, std::size_t, int, int, Communicator, void*);

  explicit Nccl(const SharedObject& object) {
    object.find(get_version, "ncclGetVersion");
    object.find(get_unique_id, "ncclGetUniqueId");
    object.find(init_rank, "ncclCommInitRank");
    object.find(destroy, "ncclCommDestroy");
    object.find(error_string, "ncclGetErrorString");
    object.find(mem_alloc, "ncclMemAlloc");
    object.find(mem_free, "ncclMemFree");
    object.find(reg, "ncclCommRegister");
    object.find(all_reduce, "ncclAllReduce");
    object.find(reduce, "ncclReduce");
    object.find(broadcast, "ncclBroadcast");
    object.find(all_gather, "ncclAllGather");
    object.find(reduce_scatter, "ncclReduceScatter");
    object.find(group_start, "ncclGroupStart");
    object.find(group_end, "ncclGroupEnd");
    object.find(send, "ncclSend");
    object.find(recv, "ncclRecv");
  }
  void check(int result, const char* what) const {
    if (result != 0) fail(ErrorCode::system, what, " failed: ", error_string(result));
  }
};

int nccl_type(ElementType type) {
  static const std::map<ElementType, int> numbers{
      {ElementType::int8, 0},    {ElementType::uint8, 1},   {ElementType::int32, 2},   {ElementType::uint32, 3},
      {ElementType::int64, 4},   {ElementType::uint64, 5},  {ElementType::float16, 6}, {ElementType::float32, 7},
      {ElementType::float64, 8}, {ElementType::bfloat16, 9}};
  const auto found = numbers.find(type);
  if (found == numbers.end()) fail(ErrorCode::unsupported, "NCCL has no ", onstream::name_of(type));
  return found->second;
}

int nccl_op(ReduceOp op) {
  static const std::map<ReduceOp, int> numbers{
      {ReduceOp::sum, 0}, {ReduceOp::prod, 1}, {ReduceOp::max, 2}, {ReduceOp::min, 3}, {ReduceOp::avg, 4}};
  const auto found = numbers.find(op);
  if (found == numbers.end()) fail(ErrorCode::unsupported, "NCCL has no ", onstream::name_of(op));
  return found->second;
}

class NcclCollectives final : public CollectiveLibrary {
 public:
  explicit NcclCollectives(const CollectiveSetup& setup)
      : object_(setup.file),
        nccl_(object_),
        launch_(setup.launch),
        store_(setup.launch, Deadline(kMeetS)),
        device_(open_device(setup.device, setup.launch.local_rank)),
        plain_(setup.plain) {
    nccl_.check(nccl_.get_version(&version_), "ncclGetVersion");
    UniqueId id{};
    if (launch_.rank == 0) {
      nccl_.check(nccl_.get_unique_id(&id), "ncclGetUniqueId");
      store_.set("nccl.id", {id.bytes.data(), id.bytes.size()});
    } else {
      const std::string text = store_.get("nccl.id", Deadline(kMeetS));
      require(text.size() == sizeof(id), "the unique id of NCCL came with ", text.size(), " B");
      std::memcpy(&id, text.data(), sizeof(id));
    }
    nccl_.check(nccl_.init_rank(&communicator_, launch_.size, id, launch_.rank), "ncclCommInitRank");
    const std::size_t bytes = (setup.largest / 4096 + 1) * 4096;
    for (int i = 0; i < 2; ++i) buffers_.push_back(allocate(bytes));
  }
  ~NcclCollectives() override {
    nccl_.destroy(communicator_);
    for (std::byte* buffer : buffers_) nccl_.mem_free(buffer);
  }

  int rank() const override { return launch_.rank; }
  int size() const override { return launch_.size; }
  Device& device() const override { return *device_; }
  std::byte* input() const override { return buffers_[0]; }
  std::byte* output() const override { return buffers_[1]; }

  void enqueue(const CollectiveCase& c, Stream stream) override {
    const std::size_t count = c.count(size());
    const int type = nccl_type(c.type);
    const int op = nccl_op(c.op);
    void* const on = stream.handle;
    switch (c.kind) {
      case OpKind::all_reduce:
        return nccl_.check(nccl_.all_reduce(input(), output(), count, type, op, communicator_, on), "ncclAllReduce");
      case OpKind::reduce:
        return nccl_.check(nccl_.reduce(input(), output(), count, type, op, 0, communicator_, on), "ncclReduce");
      case OpKind::broadcast:
        return nccl_.check(nccl_.broadcast(input(), output(), count, type, 0, communicator_, on), "ncclBroadcast");
      case OpKind::all_gather:
        return nccl_.check(nccl_.all_gather(input(), output(), count, type, communicator_, on), "ncclAllGather");
      case OpKind::reduce_scatter:
        return nccl_.check(nccl_.reduce_scatter(input(), output(), count, type, op, communicator_, on),
                           "ncclReduceScatter");
      case OpKind::all_to_all: return all_to_all(count * size_of(c.type), on);
      default: fail(ErrorCode::unsupported, "NCCL has no ", onstream::name_of(c.kind));
    }
  }
  void run_host(const CollectiveCase&) override {
    fail(ErrorCode::unsupported, "NCCL has only collectives on a stream");
  }
  void barrier(Stream stream) override {
    nccl_.check(nccl_.all_reduce(input(), output(), 1, 7, 0, communicator_, stream.handle), "ncclAllReduce");
    device_->synchronize(stream);
  }
  void synchronize(Stream stream) override { device_->synchronize(stream); }
  void abort(const std::string& reason) override {
    std::fprintf(stderr, "bench_collective: %s\n", reason.c_str());
    std::_Exit(1);  // destructors would wait for the other ranks
  }
  std::string heading() const override {
    return concat("{\"library\":\"NCCL ", version_ / 10000, ".", version_ / 100 % 100, ".", version_ % 100,
                  "\",\"device\":", quoted(device_->name()), ",\"device_kind\":\"", name_of(device_->kind()),
                  "\",\"ranks\":", size(), ",\"buffers\":\"ncclMemAlloc, ",
                  windows_ ? "symmetric windows" : (registered_ ? "registered" : "not registered"), "\"}");
  }

 private:
  void all_to_all(std::size_t bytes, void* stream) {
    nccl_.check(nccl_.group_start(), "ncclGroupStart");
    for (int peer = 0; peer < size(); ++peer) {
      const std::size_t place = bytes * static_cast<std::size_t>(peer);
      nccl_.check(nccl_.send(input() + place, bytes, 0, peer, communicator_, stream), "ncclSend");
      nccl_.check(nccl_.recv(output() + place, bytes, 0, peer, communicator_, stream), "ncclRecv");
    }
    nccl_.check(nccl_.group_end(), "ncclGroupEnd");
  }

  std::byte* allocate(std::size_t bytes) {
    void* memory = nullptr;
    nccl_.check(nccl_.mem_alloc(&memory, bytes), "ncclMemAlloc");
    void* handle = nullptr;  // lives as long as the communicator
    constexpr int kHasWindows = 22700;
    if (version_ >= kHasWindows) {
      int (*window)(Communicator, void*, std::size_t, void**, int) = nullptr;
      object_.find(window, "ncclCommWindowRegister");
      windows_ = !plain_ && window(communicator_, memory, bytes, &handle, kSymmetric) == 0;
    }
    if (plain_) registered_ = false;
    if (!windows_ && !plain_) registered_ = nccl_.reg(communicator_, memory, bytes, &handle) == 0 && registered_;
    return static_cast<std::byte*>(memory);
  }

  SharedObject object_;
  Nccl nccl_;
  Launch launch_;
  Store store_;
  std::shared_ptr<Device> device_;
  int version_ = 0;
  Communicator communicator_ = nullptr;
  std::vector<std::byte*> buffers_;
  bool plain_;
  bool windows_ = false;
  bool registered_ = true;
};

}  // namespace

std::unique_ptr<CollectiveLibrary> open_nccl_collectives(const CollectiveSetup& setup) {
  return std::make_unique<NcclCollectives>(setup);
}

}  // namespace onstream::bench
