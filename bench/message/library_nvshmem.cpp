// NVSHMEM under measurement: put with signal and wait for the signal, both ordered on a stream.
//
// The library is opened at run time. The ranks pass the unique id through onstream's own store. All buffers lie in the
// symmetric heap (NVSHMEM_SYMMETRIC_SIZE must hold twice the largest case).
//
// A message is a put into the peer's incoming buffer that sets the peer's signal word of this sender to the number of
// the message; the receiver waits until the word has reached it. Numbers are kernel arguments, so a captured window has
// its own words, counts from one, and must find them zero at every replay: each window is captured twice with two sets
// of words, replayed in turn, and each zeroes the set of the other before its first message. By then all messages of
// the other's last replay have been waited for, and nobody can begin its next one before this window's messages of
// every rank were seen: true of ping-pong, of an acknowledged window, and of a ring with at least as many steps as
// ranks.
#include "library_peer.hpp"
#include "support/nvshmem_start.hpp"

namespace onstream::bench {

namespace {

constexpr int kSignalSet = 9;
constexpr int kCompareGe = 5;
constexpr int kVariants = 2;
constexpr std::size_t kChannels = 2;

struct Nvshmem : NvshmemStart {
  void (*put_signal)(void*, const void*, std::size_t, std::uint64_t*, std::uint64_t, int, int, void*);
  void (*wait_signal)(std::uint64_t*, int, std::uint64_t, void*);

  explicit Nvshmem(const SharedObject& object) : NvshmemStart(object) {
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
    nvshmem_.start(meet<NvshmemId>([&](NvshmemId& made) { nvshmem_.make(made); }), rank(), size());
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
  std::string version() const override { return nvshmem_.version(); }
  std::string buffers() const override { return "symmetric heap"; }

  void* allocate(std::size_t bytes) { return nvshmem_.allocate(bytes); }

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
