// NCCL under measurement: grouped ncclSend and ncclRecv on a stream, eager or captured.
//
// The few declarations needed of NCCL's public interface (2.19 and newer) stand here; the library is opened at run
// time. Its buffers come from ncclMemAlloc and are registered with the communicator, which is the best it offers; the
// heading says whether it took the registration. The ranks pass the unique id through onstream's own store. NCCL has no
// deadlines: the driver of the bench ends a run that hangs.
#include <array>

#include "library_peer.hpp"
#include "support/shared_object.hpp"

namespace onstream::bench {

namespace {

struct UniqueId {
  std::array<char, 128> bytes;
};
using Communicator = void*;
constexpr int kInt8 = 0;

struct Nccl {
  int (*get_version)(int*);
  int (*get_unique_id)(UniqueId*);
  int (*init_rank)(Communicator*, int, UniqueId, int);
  int (*destroy)(Communicator);
  const char* (*error_string)(int);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void*, std::size_t, int, int, Communicator, void*);
  int (*recv)(void*, std::size_t, int, int, Communicator, void*);
  int (*mem_alloc)(void**, std::size_t);
  int (*mem_free)(void*);
  int (*reg)(Communicator, void*, std::size_t, void**);

  explicit Nccl(const SharedObject& object) {
    object.find(get_version, "ncclGetVersion");
    object.find(get_unique_id, "ncclGetUniqueId");
    object.find(init_rank, "ncclCommInitRank");
    object.find(destroy, "ncclCommDestroy");
    object.find(error_string, "ncclGetErrorString");
    object.find(group_start, "ncclGroupStart");
    object.find(group_end, "ncclGroupEnd");
    object.find(send, "ncclSend");
    object.find(recv, "ncclRecv");
    object.find(mem_alloc, "ncclMemAlloc");
    object.find(mem_free, "ncclMemFree");
    object.find(reg, "ncclCommRegister");
  }

  void check(int result, const char* what) const {
    if (result != 0) fail(ErrorCode::system, what, " failed: ", error_string(result));
  }
};

std::string version_text(int version) {  // 22809 is 2.28.9
  return concat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

class NcclLibrary;

class NcclBatch final : public Batch {
 public:
  NcclBatch(NcclLibrary& library, std::vector<Step> steps) : library_(library), steps_(std::move(steps)) {}
  void post(Stream stream) override;

 private:
  NcclLibrary& library_;
  std::vector<Step> steps_;
};

class NcclLibrary final : public PeerLibrary {
 public:
  NcclLibrary(const Nccl& nccl, const LibraryOptions& options) : PeerLibrary("NCCL", options), nccl_(nccl) {
    nccl_.check(nccl_.get_version(&version_), "ncclGetVersion");
    const auto id = meet<UniqueId>([&](UniqueId& made) { nccl_.check(nccl_.get_unique_id(&made), "ncclGetUniqueId"); });
    nccl_.check(nccl_.init_rank(&communicator_, size(), id, rank()), "ncclCommInitRank");
    make_buffers([&](std::size_t bytes) { return allocate(bytes); });
  }

  ~NcclLibrary() override {
    nccl_.destroy(communicator_);
    free_buffers([&](std::byte* buffer) { nccl_.mem_free(buffer); });
  }

  void send(const Span& span, int peer, Stream stream) override {
    nccl_.check(nccl_.send(outgoing(span.channel) + span.offset, span.bytes, kInt8, peer, communicator_, stream.handle),
                "ncclSend");
  }
  void recv(const Span& span, int peer, Stream stream) override {
    nccl_.check(nccl_.recv(incoming(span.channel) + span.offset, span.bytes, kInt8, peer, communicator_, stream.handle),
                "ncclRecv");
  }
  void exchange(const Span& span, int to, int from, Stream stream, Stream) override {
    ring_step(span, to, from, stream);
  }
  void ring_step(const Span& span, int to, int from, Stream stream) override {
    run({{Step::Kind::send, span, to}, {Step::Kind::recv, span, from}}, stream);
  }
  std::shared_ptr<Batch> prepare(const std::vector<Step>& steps) override {
    return std::make_shared<NcclBatch>(*this, steps);
  }
  void run(const std::vector<Step>& steps, Stream stream) {
    nccl_.check(nccl_.group_start(), "ncclGroupStart");
    for (const Step& step : steps) {
      step.kind == Step::Kind::send ? send(step.span, step.peer, stream) : recv(step.span, step.peer, stream);
    }
    nccl_.check(nccl_.group_end(), "ncclGroupEnd");
  }

 private:
  std::string version() const override { return version_text(version_); }
  std::string buffers() const override {
    return concat("ncclMemAlloc, ", registered_ ? "registered" : "not registered");
  }

  std::byte* allocate(std::size_t bytes) {
    void* memory = nullptr;
    nccl_.check(nccl_.mem_alloc(&memory, bytes), "ncclMemAlloc");
    void* handle = nullptr;  // lives as long as the communicator
    registered_ = nccl_.reg(communicator_, memory, bytes, &handle) == 0 && registered_;
    return static_cast<std::byte*>(memory);
  }

  Nccl nccl_;
  int version_ = 0;
  Communicator communicator_ = nullptr;
  bool registered_ = true;
};

void NcclBatch::post(Stream stream) { library_.run(steps_, stream); }

}  // namespace

std::unique_ptr<Library> open_nccl(const LibraryOptions& options) {
  return std::make_unique<NcclLibrary>(Nccl(SharedObject(options.file)), options);
}

}  // namespace onstream::bench
