// The library under measurement, as the modes see it: messages between ranks, ordered on a stream.
//
// Everything else - buffers' contents, the handshake, timing, capture, the modes - is written once over this
// (message_modes.hpp), so that all libraries do the same work. A library has two channels: `data` with as many bytes as
// the largest case, and `control` with 8 bytes; each has an outgoing and an incoming buffer on every rank. Messages of
// one channel between two ranks arrive in order. Only synchronize(), run_host() and begin_case() block.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "message_case.hpp"
#include "onstream/device.hpp"
#include "onstream/launch.hpp"
#include "onstream/path.hpp"

namespace onstream {
struct Parameters;
class World;
}  // namespace onstream

namespace onstream::bench {

enum class Channel { data, control };
constexpr std::size_t kWordBytes = 8;  // of a control message

// Part of a channel's buffers: bytes [offset, offset + bytes) of the sender's outgoing and of the receiver's incoming.
struct Span {
  Channel channel = Channel::data;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// Operations prepared once and posted together, any number of times.
class Batch {
 public:
  virtual ~Batch() = default;
  virtual void post(Stream stream) = 0;
};

struct Step {
  enum class Kind { send, recv } kind = Kind::send;
  Span span;
  int peer = 0;
};

class Library {
 public:
  virtual ~Library() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Device& device() const = 0;
  virtual std::string heading() const = 0;  // a JSON object: which library, and how it is set up
  virtual std::byte* outgoing(Channel channel) const = 0;
  virtual std::byte* incoming(Channel channel) const = 0;

  virtual void send(const Span& span, int peer, Stream stream) = 0;
  virtual void recv(const Span& span, int peer, Stream stream) = 0;
  // One send and one receive that do not wait for each other; `second` is a stream that may be used for the receive.
  virtual void exchange(const Span& span, int to, int from, Stream stream, Stream second) = 0;
  virtual void ring_step(const Span& span, int to, int from, Stream stream) = 0;
  // Collective. Throws unsupported where the library has nothing of the kind.
  virtual std::shared_ptr<Batch> prepare(const std::vector<Step>& steps) = 0;
  // Runs a case of the submission `host`, untimed and unchecked. Throws unsupported where there is none.
  virtual void run_host(const Case& c) = 0;

  // Waits for the stream, then throws if something on it failed.
  virtual void synchronize(Stream stream) = 0;
  // Collective: before the first operation of a case.
  virtual void begin_case() {}
  // How often a window must be captured; the graphs are replayed in turn. The library is told which it records.
  virtual int variants() const { return 1; }
  virtual void begin_variant(int variant, Stream stream) {
    static_cast<void>(variant);
    static_cast<void>(stream);
  }
  virtual void end_variants() {}
  // Something went wrong here, and the other ranks shall not wait for this one. May end the process.
  virtual void abort(const std::string& reason) = 0;
};

// For libraries without failures that can be told to others: says why and ends the process at once, for their
// destructors would wait for the other ranks.
[[noreturn]] void end_process(const std::string& reason);

struct LibraryOptions {
  Launch launch;
  std::string device;  // as the parameter
  MemoryKind from = MemoryKind::device;
  MemoryKind to = MemoryKind::device;
  Path path = Path::automatic;
  std::size_t largest = 0;  // bytes of the data channel's buffers
  std::string file;         // of the library, when it is not onstream: for dlopen
};

// Collective: over the job's ranks. Each throws unsupported with the reason when the library cannot work here.
std::unique_ptr<Library> open_onstream(const LibraryOptions& options, const Parameters& parameters);
std::unique_ptr<Library> open_nccl(const LibraryOptions& options);
std::unique_ptr<Library> open_nvshmem(const LibraryOptions& options);

}  // namespace onstream::bench
