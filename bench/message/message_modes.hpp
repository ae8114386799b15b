// Runs one case over a library and returns its samples.
//
// Every sample starts with a handshake that passes all hosts and is timed by rank 0's steady clock: from the first
// operation enqueued (or called) to the end of the last one (for a stream: until it is synchronised). One untimed
// sample goes first. All messages of a window use one buffer, as in the OSU benchmarks, except in the modes that say
// otherwise. After the timing, outside of it, the data of the last messages are compared with the sender's pattern.
// Every wait ends at the library's deadline, if it has one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "library.hpp"

namespace onstream::bench {

class Runner {
 public:
  explicit Runner(Library& library);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // The seconds of each message, `samples` times; meaningful on rank 0. Throws Error when data are wrong.
  std::vector<double> run(const Case& c, int samples);

 private:
  struct Graphs {  // of one captured window: of stream_ and, in the bidirectional mode, of second_
    std::shared_ptr<Graph> first;
    std::shared_ptr<Graph> second;
  };

  void handshake();
  void prepare(const Case& c);
  void warm_up(const Case& c);
  void run_once(const Case& c, const std::vector<Graphs>& graphs);
  void enqueue_window(const Case& c);
  std::vector<Graphs> capture(const Case& c);
  void synchronize();
  void fill(const Case& c);
  void verify(const Case& c);
  std::uint64_t seed(int from, std::size_t bytes) const;

  Library& library_;
  int rank_;
  int next_;
  int last_;
  Stream stream_;
  Stream second_;  // receives of the bidirectional mode
  std::shared_ptr<Batch> batch_;
  std::size_t replays_ = 0;  // of captured windows, in this case
};

}  // namespace onstream::bench
