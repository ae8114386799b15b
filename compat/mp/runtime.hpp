// Runtime: libmp's state between mp_init and mp_finalize - a world over the ranks of the communicator, and the handles
// that the program holds. Used by one thread at a time; the Progress thread is its own.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "handles.hpp"
#include "mp/calls.h"
#include "onstream/base/fork_guard.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/world.hpp"
#include "pair.hpp"
#include "progress.hpp"
#include "refusal.hpp"

namespace onstream::mp {

struct Registration {
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  bool reached = false;       // kernels may touch it: asked for with the first op that needs it
  std::shared_ptr<void> pin;  // that of plain memory
};

struct WindowObject {
  std::shared_ptr<Window> window;
  std::shared_ptr<void> pin;
};

struct Entry {
  enum class What { start, await, wait_word, store_word };
  What what = What::start;
  std::shared_ptr<Operation> request;
  std::uint32_t* word = nullptr;
  std::uint32_t value = 0;
  Compare compare = Compare::reached;
};

struct Queue {
  std::deque<Entry> entries;
};

class Runtime {
 public:
  Runtime(const Launch& launch, const Parameters& parameters, std::span<const int> peers);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  World& world() { return *world_; }
  // The text of an error in a call. For the world's failure, the first call that asks gets all that its log has not
  // said.
  std::string told(const std::exception& error);
  bool failure_told() const { return failure_told_; }
  Pair& pair(int peer) { return *pairs_[static_cast<std::size_t>(peer)]; }
  // The stream that a program's handle means.
  Stream stream_of(CUstream_st* stream) const;

  // --- memory ---
  mp_reg_t register_memory(void* address, std::size_t bytes);
  void deregister(mp_reg_t handle);
  // Collective: an error of one rank is thrown on all, also that of a null `place`.
  void create_window(void* address, std::size_t bytes, mp_window_t* place);
  void destroy_window(mp_window_t handle);
  // Lets kernels access a word of plain memory; for good.
  void reach_word(const void* word);
  std::shared_ptr<Memory> staging_for(const Operation& request);

  // --- requests ---
  // Prepared; blocks are checked against the registration.
  std::shared_ptr<Operation> message(Kind kind, std::vector<Block> blocks, int peer, const mp_reg_t* reg);
  std::shared_ptr<Operation> put(Block source, int peer, const mp_reg_t* reg, std::size_t offset, mp_window_t window,
                                 int flags);
  std::shared_ptr<Operation> get(Block destination, int peer, const mp_reg_t* reg, std::size_t offset,
                                 mp_window_t window);
  // The program's handle; of a NOWAIT put that is posted, one that is none.
  mp_request_t hand_out(const std::shared_ptr<Operation>& request);
  // Throws EINVAL for a handle that is none, or is there twice.
  std::shared_ptr<Operation> request_of(const mp_request_t* handle) const;
  std::vector<std::shared_ptr<Operation>> requests_of(std::span<mp_request_t> handles) const;
  // remember() after an op was prepared, take_prepared() when it is started, in the order of preparation. The demand
  // changes nothing. Ops that were taken and could not be started are put back, the newest first.
  void remember(const std::shared_ptr<Operation>& request);
  void demand_prepared(std::span<const std::shared_ptr<Operation>> requests);
  void take_prepared(const std::shared_ptr<Operation>& request);
  void put_back(const std::shared_ptr<Operation>& request);
  // Throws EINVAL unless the stream may wait for these posted requests: a capture for requests posted in one, and for
  // nothing else. No receive is: its message would come once, and the graph's wait at every replay.
  void demand_same_graph(std::span<const std::shared_ptr<Operation>> requests, Stream stream) const;
  // Ends the program's handle of a NOWAIT put that is posted or queued.
  void end_if_nowait(const Operation& request);

  // --- posting by the host: nothing waits ---
  void post(const std::shared_ptr<Operation>& request);

  // --- completion ---
  void wait(std::span<mp_request_t> handles);
  int count_done(std::span<mp_request_t> handles);

  // --- queues ---
  mp_desc_queue_t add_queue() { return queues_.add(std::make_shared<Queue>()); }
  std::shared_ptr<Queue> queue_of(const mp_desc_queue_t* handle) const;
  void remove_queue(mp_desc_queue_t handle) { queues_.remove(handle); }

  std::shared_ptr<DeviceWordsPool> words() const { return words_; }
  Progress& progress() { return *progress_; }

 private:
  void check_peer(int peer) const;
  void demand_memory(const void* address, std::size_t bytes, const char* cannot) const;
  void reach(Registration& registration, const Block& block, bool by_kernels) const;
  std::shared_ptr<Registration> registration_of(const mp_reg_t* handle) const;
  Window& window_of(mp_window_t handle) const;
  bool post_at_once(Operation& request);
  void finish(Operation& request);
  void wait_for(const Event& event) const;
  void wait_until_seen(const Operation& request) const;
  bool is_done(Operation& request);
  void scatter(Operation& request);

  std::shared_ptr<World> world_;
  bool on_host_;
  bool failure_told_ = false;
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::shared_ptr<DeviceWordsPool> words_;
  Handles<Registration, mp_reg_t> registrations_;
  Handles<Operation, mp_request_t> requests_;
  Handles<WindowObject, mp_window_t> windows_;
  Handles<Queue, mp_desc_queue_t> queues_;
  std::vector<std::shared_ptr<void>> pinned_words_;
  OwnStream taking_;  // where MP_PUT_INLINE reads device memory: no op here waits for a doorbell
  ParentsOwn<Progress> progress_;
};

}  // namespace onstream::mp
