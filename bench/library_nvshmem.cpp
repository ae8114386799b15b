// NVSHMEM under measurement: put with signal and wait for the signal, both ordered on a stream.
//
// The few declarations needed of NVSHMEM's public host interface (3.x, whose structures carry their version) stand
// here; the library is opened at run time. The ranks pass the unique id through onstream's own store. All buffers lie
// in the symmetric heap (NVSHMEM_SYMMETRIC_SIZE must hold twice the largest case).
//
// A message is a put into the peer's incoming buffer that sets the peer's signal word of this sender to the number of
// the message; the receiver waits until the word has reached it. Numbers are kernel arguments, so a captured window has
// its own words, counts from one, and must find them zero at every replay: each window is captured twice with two sets
// of words, replayed in turn, and each zeroes the set of the other before its first message. By then all messages of
// the other's last replay have been waited for, and nobody can begin its next one before this window's messages of
// every rank were seen: true of ping-pong, of an acknowledged window, and of a ring with at least as many steps as
// ranks.
#include <array>

#include "library_peer.hpp"
#include "shared_object.hpp"

namespace onstream::bench {

namespace {

// nvshmemx_uniqueid_v1, nvshmemx_uniqueid_args_v1, nvshmemx_init_args_v1, nvshmemx_init_attr_v1.
template <class Struct>
constexpr int kVersionOf = (1 << 16) + static_cast<int>(sizeof(Struct));

struct UniqueId {
  int version;
  std::array<char, 124> internal;
};
struct UniqueIdArguments {
  int version;
  UniqueId* id;
  int rank;
  int ranks;
};
struct InitArguments {
  int version;
  UniqueIdArguments unique_id;
  std::array<char, 96> content;
};
struct InitAttributes {
  int version;
  void* mpi_communicator;
  InitArguments arguments;
};
static_assert(sizeof(UniqueId) == 128 && sizeof(UniqueIdArguments) == 24);
static_assert(sizeof(InitArguments) == 128 && sizeof(InitAttributes) == 144);

constexpr unsigned kInitWithUniqueId = 1u << 3;
constexpr int kSignalSet = 9;
constexpr int kCompareGe = 5;
constexpr int kVariants = 2;
constexpr std::size_t kChannels = 2;

struct Nvshmem {
  void (*version)(int*, int*, int*);
  int (*get_unique_id)(UniqueId*);
  int (*set_unique_id)(int, int, const UniqueId*, InitAttributes*);
  int (*init)(unsigned, InitAttributes*);
  void (*finalize)();
  void* (*malloc)(std::size_t);
  void (*free)(void*);
  void (*barrier_all)();
  void (*put_signal)(void*, const void*, std::size_t, std::uint64_t*, std::uint64_t, int, int, void*);
  void (*wait_signal)(std::uint64_t*, int, std::uint64_t, void*);

  explicit Nvshmem(const SharedObject& object) {
    object.find(version, "nvshmemx_vendor_get_version_info");
    object.find(get_unique_id, "nvshmemx_get_uniqueid");
    object.find(set_unique_id, "nvshmemx_set_attr_uniqueid_args");
    object.find(init, "nvshmemx_hostlib_init_attr");
    object.find(finalize, "nvshmemx_hostlib_finalize");
    object.find(malloc, "nvshmem_malloc");
    object.find(free, "nvshmem_free");
    object.find(barrier_all, "nvshmem_barrier_all");
    object.find(put_signal, "nvshmemx_putmem_signal_on_stream");
    object.find(wait_signal, "nvshmemx_signal_wait_until_on_stream");
  }
};

// Signal words in the symmetric heap, [channel][sender], and how far each sender and receiver has counted.
struct Signals {
  std::uint64_t* words = nullptr;
  std::vector<std::uint64_t> sent;      // [channel][receiver]
  std::vector<std::uint64_t> received;  // [channel][sender]
};

class NvshmemLibrary final : public PeerLibrary {
 public:
  NvshmemLibrary(const Nvshmem& nvshmem, const LibraryOptions& options)
      : PeerLibrary("NVSHMEM", options), nvshmem_(nvshmem) {
    initialize();
    make_buffers([&](std::size_t bytes) { return static_cast<std::byte*>(allocate(bytes)); });
    for (int set = 0; set < 1 + kVariants; ++set) {
      Signals& signals = sets_.emplace_back();
      signals.words = static_cast<std::uint64_t*>(allocate(words_bytes()));
    }
    zeros_ = device().allocate(words_bytes(), MemoryKind::device);
    stream_ = device().create_stream();
    reset();
  }

  ~NvshmemLibrary() override {
    nvshmem_.barrier_all();
    device().destroy_stream(stream_);
    for (const Signals& signals : sets_) nvshmem_.free(signals.words);
    free_buffers([&](std::byte* buffer) { nvshmem_.free(buffer); });
    nvshmem_.finalize();
  }

  void send(const Span& span, int peer, Stream stream) override {
    Signals& signals = sets_[current_];
    const std::uint64_t number = ++signals.sent[index(span.channel, peer)];
    nvshmem_.put_signal(incoming(span.channel) + span.offset, outgoing(span.channel) + span.offset, span.bytes,
                        signals.words + index(span.channel, rank()), number, kSignalSet, peer, stream.handle);
  }
  void recv(const Span& span, int peer, Stream stream) override {
    Signals& signals = sets_[current_];
    const std::uint64_t number = ++signals.received[index(span.channel, peer)];
    nvshmem_.wait_signal(signals.words + index(span.channel, peer), kCompareGe, number, stream.handle);
  }
  void exchange(const Span& span, int to, int from, Stream stream, Stream second) override {
    send(span, to, stream);
    recv(span, from, second);
  }
  void ring_step(const Span& span, int to, int from, Stream stream) override {
    send(span, to, stream);
    recv(span, from, stream);
  }
  std::shared_ptr<Batch> prepare(const std::vector<Step>&) override {
    fail(ErrorCode::unsupported, "NVSHMEM has no operations that are prepared and posted together");
  }
  void begin_case() override { reset(); }
  int variants() const override { return kVariants; }
  void begin_variant(int variant, Stream stream) override {
    current_ = static_cast<std::size_t>(1 + variant);
    sets_[current_].sent.assign(words_count(), 0);
    sets_[current_].received.assign(words_count(), 0);
    device().copy(sets_[static_cast<std::size_t>(1 + (variant + 1) % kVariants)].words, zeros_->data(), words_bytes(),
                  stream);
  }
  void end_variants() override { current_ = 0; }

 private:
  std::string version() const override {
    int major = 0;
    int minor = 0;
    int patch = 0;
    nvshmem_.version(&major, &minor, &patch);
    return concat(major, ".", minor, ".", patch);
  }
  std::string buffers() const override { return "symmetric heap"; }

  void initialize() {
    const auto id = meet<UniqueId>([&](UniqueId& made) {
      made.version = kVersionOf<UniqueId>;
      check(nvshmem_.get_unique_id(&made), "nvshmemx_get_uniqueid");
    });
    InitAttributes attributes{};
    attributes.version = kVersionOf<InitAttributes>;
    attributes.arguments.version = kVersionOf<InitArguments>;
    attributes.arguments.unique_id.version = kVersionOf<UniqueIdArguments>;
    check(nvshmem_.set_unique_id(rank(), size(), &id, &attributes), "nvshmemx_set_attr_uniqueid_args");
    check(nvshmem_.init(kInitWithUniqueId, &attributes), "nvshmemx_hostlib_init_attr");
  }

  static void check(int result, const char* what) {
    if (result != 0) fail(ErrorCode::system, what, " failed with ", result, "; NVSHMEM_DEBUG=INFO tells more");
  }

  void* allocate(std::size_t bytes) {
    void* memory = nvshmem_.malloc(bytes);
    if (memory == nullptr) {
      fail(ErrorCode::system, "nvshmem_malloc of ", bytes, " B failed; raise NVSHMEM_SYMMETRIC_SIZE");
    }
    return memory;
  }

  // Collective: all words zero, all counts zero.
  void reset() {
    nvshmem_.barrier_all();
    for (Signals& signals : sets_) {
      device().copy(signals.words, zeros_->data(), words_bytes(), stream_);
      signals.sent.assign(words_count(), 0);
      signals.received.assign(words_count(), 0);
    }
    device().synchronize(stream_);
    nvshmem_.barrier_all();
  }

  std::size_t words_count() const { return kChannels * static_cast<std::size_t>(size()); }
  std::size_t words_bytes() const { return words_count() * sizeof(std::uint64_t); }
  std::size_t index(Channel channel, int rank) const {
    return (channel == Channel::data ? 0 : static_cast<std::size_t>(size())) + static_cast<std::size_t>(rank);
  }

  Nvshmem nvshmem_;
  std::vector<Signals> sets_;  // eager, then one of each captured variant
  std::size_t current_ = 0;
  std::shared_ptr<Memory> zeros_;
  Stream stream_;
};

}  // namespace

std::unique_ptr<Library> open_nvshmem(const LibraryOptions& options) {
  return std::make_unique<NvshmemLibrary>(Nvshmem(SharedObject(options.file)), options);
}

}  // namespace onstream::bench
