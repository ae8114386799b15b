// Runs one case between ranks 0 and 1 of a world and returns its samples.
//
// Every sample starts with a handshake of the two hosts and is timed by rank 0's steady clock: from the first operation
// enqueued (or called) to the end of the last one (for a stream: until it is synchronised). One untimed sample goes
// first. All messages of a window use one buffer, as in the OSU benchmarks. After the timing, outside of it, the data
// of the last message are compared with the sender's pattern. Every wait ends at the world's deadline.
#pragma once

#include <memory>
#include <vector>

#include "message_case.hpp"
#include "onstream/world/world.hpp"

namespace onstream::bench {

// A buffer of any kind of memory; kind host is the process's own, as malloc gives it.
class Buffer {
 public:
  Buffer(World& world, std::size_t bytes, MemoryKind kind);
  void* data() const { return data_; }

 private:
  std::shared_ptr<Memory> memory_;
  std::vector<std::byte> plain_;
  void* data_ = nullptr;
};

class Runner {
 public:
  // largest: the most bytes of any case to come.
  Runner(World& world, MemoryKind kind, Path path, std::size_t largest);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // The seconds of each message, `samples` times; meaningful on rank 0. Throws Error when data are wrong.
  std::vector<double> run(const Case& c, int samples);

 private:
  void handshake();
  void fill(std::size_t bytes);
  void verify(const Case& c);
  void run_host(const Case& c);
  void host_ping_pong(const Case& c);
  void host_pipelined(const Case& c);
  void host_bidirectional(const Case& c);
  void enqueue_window(const Case& c);
  std::vector<std::shared_ptr<Graph>> capture_window(const Case& c);
  void synchronize();

  World& world_;
  int rank_;
  int peer_;
  MessageOptions options_;
  MessageOptions control_;  // handshakes and acknowledgements: another lane
  Buffer outgoing_;
  Buffer incoming_;
  Buffer word_;
  Stream stream_;
  Stream second_;  // receives of the bidirectional mode
  std::vector<std::shared_ptr<Request>> requests_;
};

}  // namespace onstream::bench
