// Poster: puts ops on one stream, in order and in as few launches as they allow; then notes their requests.
//
// Ops of one sort that follow each other are gathered - one-sided ops with waits for words, sends, waits for messages -
// and go together when one of another sort comes. finish() notes the enqueued ops; the destructor does it where an op
// could not be enqueued, and returns those that are not on the stream to their earlier state.
#pragma once

#include <memory>
#include <vector>

#include "pair.hpp"

namespace onstream::mp {

class Runtime;

class Poster {
 public:
  Poster(Runtime& runtime, Stream stream);
  ~Poster();
  Poster(const Poster&) = delete;
  Poster& operator=(const Poster&) = delete;

  void start(const std::shared_ptr<Operation>& request);  // a prepared or queued send, put or get
  void receive(const std::shared_ptr<Operation>& request);
  void await(const std::shared_ptr<Operation>& request);  // the stream waits for a posted request
  void wait_word(const void* word, const Until& until);
  void store_word(void* word, std::uint64_t value, std::size_t width);
  void finish();
  // How many of the ops asked for, from the first on, are on the stream.
  std::size_t gone() const { return gone_; }

 private:
  enum class Sort { steps, sends, awaits };
  struct Gathered {
    std::shared_ptr<Operation> request;
    State before;  // posted: this is its wait
  };

  // Flushes the gathered ops first if they are of another sort.
  void begin(Sort sort);
  void flush();
  void flush_sends();
  void flush_awaits();
  void give_up();

  Runtime& runtime_;
  World& world_;
  Stream stream_;
  Sort sort_ = Sort::steps;  // of the gathered ops
  Batch batch_;
  std::vector<std::shared_ptr<Operation>> sends_;
  std::vector<std::shared_ptr<Operation>> awaits_;
  std::vector<Gathered> gathered_;  // started or awaited since the last flush
  std::size_t asked_ = 0;
  std::size_t gone_ = 0;
  std::vector<std::shared_ptr<Operation>> started_;
  std::vector<std::shared_ptr<Operation>> awaited_;
};

}  // namespace onstream::mp
