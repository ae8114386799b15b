// Operation: one send, receive, put or get, from its preparation to the host's wait.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "device_words.hpp"
#include "mp/calls.h"
#include "onstream/one_sided.hpp"
#include "onstream/world.hpp"

namespace onstream::mp {

enum class Kind { send, recv, put, get };

enum class State {
  made,  // and the program has not got it yet
  prepared,
  queued,   // in a descriptor queue
  posted,   // on its way
  awaited,  // and a stream waits for it
  lost,     // nothing tells when it ends; its wait says so
};

struct Block {
  std::byte* address = nullptr;
  std::size_t bytes = 0;
};

struct Operation {
  Kind kind = Kind::send;
  State state = State::made;
  int peer = 0;
  std::size_t bytes = 0;
  bool nowait = false;             // a put that nobody can wait for
  bool captured = false;           // posted in a capture: it lives in a graph
  mp_request_t handle = nullptr;   // the program's
  std::vector<Block> blocks;       // the program's memory
  std::shared_ptr<Memory> staged;  // stands in for several blocks
  std::optional<Batch> batch;      // the steps of a put or get

  std::shared_ptr<onstream::Request> message;  // of a posted send or receive
  std::shared_ptr<Event> done;                 // behind a put or get; null: it was done at once
  std::shared_ptr<Event> awaited;              // behind the stream's wait
  std::shared_ptr<DeviceWords> words;          // for a kernel that starts or awaits it
  bool in_queue = false;                       // a descriptor queue holds a wait for it
  bool scattered = false;                      // a stream puts the staged blocks where they belong

  std::mutex busy;                    // held while somebody asks the message how it is
  std::atomic<bool> settled = false;  // the message has ended

  bool is_message() const { return kind == Kind::send || kind == Kind::recv; }
  bool is_sent() const { return kind != Kind::recv; }
  // The memory that the message is sent from or received into.
  std::byte* buffer() const {
    if (staged != nullptr) return staged->data();
    return blocks.empty() ? nullptr : blocks.front().address;
  }
};

}  // namespace onstream::mp
