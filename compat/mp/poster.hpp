// Poster: puts ops on one stream, in order and in as few launches as they allow; then notes what they left behind.
//
// One-sided ops and waits for words that follow each other are one launch; each send, receive and wait for one is a
// launch of its own. finish() notes what was enqueued; the destructor does it where an op could not be enqueued.
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

 private:
  void flush();

  Runtime& runtime_;
  World& world_;
  Stream stream_;
  Batch batch_;
  std::vector<std::shared_ptr<Operation>> started_;
  std::vector<std::shared_ptr<Operation>> awaited_;
};

}  // namespace onstream::mp
