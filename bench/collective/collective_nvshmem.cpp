// NVSHMEM's collectives under measurement, as it issues them on a stream: opened at run time.
//
// Both buffers lie in the symmetric heap (NVSHMEM_SYMMETRIC_SIZE must hold them). Its collectives ask that the
// destination is ready on every rank before any rank begins; here every one gives the same values again, so that those
// which follow each other need no barrier between them. NVSHMEM has no deadlines: the driver of the bench ends a run
// that hangs.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "collective_library.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/device.hpp"
#include "support/nvshmem_start.hpp"
#include "support/options.hpp"

namespace onstream::bench {

namespace {

constexpr std::int32_t kTeamWorld = 0;  // NVSHMEM_TEAM_WORLD

using Reduce = int (*)(std::int32_t, void*, const void*, std::size_t, void*);

// As its functions are named.
const char* type_word(ElementType type) {
  switch (type) {
    case ElementType::uint8: return "uint8";
    case ElementType::int32: return "int32";
    case ElementType::int64: return "int64";
    case ElementType::float16: return "half";
    case ElementType::bfloat16: return "bfloat16";
    case ElementType::float32: return "float";
    case ElementType::float64: return "double";
    default: fail(ErrorCode::unsupported, "NVSHMEM is not measured with ", onstream::name_of(type));
  }
}

struct Nvshmem : NvshmemStart {
  int (*all_to_all)(std::int32_t, void*, const void*, std::size_t, void*);
  int (*broadcast)(std::int32_t, void*, const void*, std::size_t, int, void*);
  int (*fcollect)(std::int32_t, void*, const void*, std::size_t, void*);
  void (*barrier)(void*);

  explicit Nvshmem(const SharedObject& object) : NvshmemStart(object) {
    object.find(all_to_all, "nvshmemx_alltoallmem_on_stream");
    object.find(broadcast, "nvshmemx_broadcastmem_on_stream");
    object.find(fcollect, "nvshmemx_fcollectmem_on_stream");
    object.find(barrier, "nvshmemx_barrier_all_on_stream");
  }
};

class NvshmemCollectives final : public CollectiveLibrary {
 public:
  explicit NvshmemCollectives(const CollectiveSetup& setup)
      : object_(setup.file),
        nvshmem_(object_),
        launch_(setup.launch),
        store_(setup.launch, Deadline(kMeetS)),
        device_(open_device(setup.device, setup.launch.local_rank)) {
    nvshmem_.start(meet(), launch_.rank, launch_.size);
    const std::size_t bytes = (setup.largest / 4096 + 1) * 4096;
    for (std::byte** each : {&input_, &output_}) *each = static_cast<std::byte*>(nvshmem_.allocate(bytes));
  }
  ~NvshmemCollectives() override {
    nvshmem_.barrier_all();
    nvshmem_.free(output_);
    nvshmem_.free(input_);
    nvshmem_.finalize();
  }

  int rank() const override { return launch_.rank; }
  int size() const override { return launch_.size; }
  Device& device() const override { return *device_; }
  std::byte* input() const override { return input_; }
  std::byte* output() const override { return output_; }

  void enqueue(const CollectiveCase& c, Stream stream) override {
    const std::size_t count = c.count(size());
    const std::size_t bytes = count * size_of(c.type);
    void* const on = stream.handle;
    switch (c.kind) {
      case OpKind::all_reduce: return check(reduce(c, "reduce")(kTeamWorld, output_, input_, count, on), "reduce");
      case OpKind::reduce_scatter:
        return check(reduce(c, "reducescatter")(kTeamWorld, output_, input_, count, on), "reducescatter");
      case OpKind::all_to_all: return check(nvshmem_.all_to_all(kTeamWorld, output_, input_, bytes, on), "alltoallmem");
      case OpKind::all_gather: return check(nvshmem_.fcollect(kTeamWorld, output_, input_, bytes, on), "fcollectmem");
      case OpKind::broadcast:
        return check(nvshmem_.broadcast(kTeamWorld, output_, input_, bytes, 0, on), "broadcastmem");
      case OpKind::barrier: return nvshmem_.barrier(on);
      default: fail(ErrorCode::unsupported, "NVSHMEM has no ", onstream::name_of(c.kind));
    }
  }
  void run_host(const CollectiveCase&) override {
    fail(ErrorCode::unsupported, "NVSHMEM's collectives are measured on a stream");
  }
  void barrier(Stream stream) override {
    device_->synchronize(stream);
    nvshmem_.barrier_all();
  }
  void synchronize(Stream stream) override { device_->synchronize(stream); }
  bool eager_instead() const override { return true; }
  std::string explain(const CollectiveCase&) override { return "on stream"; }
  void abort(const std::string& reason) override {
    std::fprintf(stderr, "bench_collective: %s\n", reason.c_str());
    std::_Exit(1);  // destructors would wait for the other ranks
  }
  std::string heading() const override {
    return concat("{\"library\":\"NVSHMEM ", nvshmem_.version(), "\",\"device\":", quoted(device_->name()),
                  ",\"device_kind\":\"", name_of(device_->kind()), "\",\"ranks\":", size(),
                  ",\"buffers\":\"symmetric heap\"}");
  }

 private:
  static void check(int result, const char* what) {
    NvshmemStart::check(result, concat("nvshmemx_", what, "_on_stream").c_str());
  }

  Reduce reduce(const CollectiveCase& c, const char* what) {
    require(c.op == ReduceOp::sum, "NVSHMEM is measured with sum, not ", onstream::name_of(c.op));
    const std::string name = concat("nvshmemx_", type_word(c.type), "_sum_", what, "_on_stream");
    Reduce& function = reductions_[name];
    if (function == nullptr) object_.find(function, name.c_str());
    return function;
  }

  NvshmemId meet() {
    NvshmemId id{};
    if (launch_.rank == 0) {
      nvshmem_.make(id);
      store_.set("nvshmem.id", {reinterpret_cast<const char*>(&id), sizeof(id)});
      return id;
    }
    const std::string text = store_.get("nvshmem.id", Deadline(kMeetS));
    require(text.size() == sizeof(id), "the unique id of NVSHMEM came with ", text.size(), " B");
    std::memcpy(&id, text.data(), sizeof(id));
    return id;
  }

  SharedObject object_;
  Nvshmem nvshmem_;
  Launch launch_;
  Store store_;
  std::shared_ptr<Device> device_;
  std::map<std::string, Reduce> reductions_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
};

}  // namespace

std::unique_ptr<CollectiveLibrary> open_nvshmem_collectives(const CollectiveSetup& setup) {
  return std::make_unique<NvshmemCollectives>(setup);
}

}  // namespace onstream::bench
