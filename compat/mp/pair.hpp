// Pair: this rank's state for one peer - the order of the ops towards it, and the receives posted for it.
//
// libmp's ops of a pair are executed in the order of the calls, whichever streams they are posted on, and whether the
// host or a stream posts them. Here each op is put behind the one before it.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <mutex>

#include "onstream/device.hpp"
#include "operation.hpp"

namespace onstream::mp {

// Ops of one direction, one behind the other.
class Order {
 public:
  bool idle() const { return last_ == nullptr || last_->done(); }
  // The event that an op on `stream` must be put behind first; null if none. A capture is ordered by the program alone.
  std::shared_ptr<Event> before(const Device& device, Stream stream) const {
    return idle() || stream == stream_ || device.capturing(stream) ? nullptr : last_;
  }
  // Afterwards; `behind` is a point of the stream behind the op, null within a capture.
  void leave(Stream stream, std::shared_ptr<Event> behind) {
    if (behind == nullptr) return;
    stream_ = stream;
    last_ = std::move(behind);
  }

 private:
  Stream stream_;
  std::shared_ptr<Event> last_;
};

// A stream of the library's own, made when first needed.
class OwnStream {
 public:
  OwnStream() = default;
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  Stream get(Device& device) {
    if (stream_.handle == nullptr) stream_ = device.create_stream();
    return stream_;
  }
  void close(Device& device) {
    if (stream_.handle != nullptr) let_go_of(device, stream_);
    stream_ = {};
  }

 private:
  Stream stream_;
};

struct Pair {
  bool is_peer = false;
  Order sends;                                     // and puts and gets
  OwnStream sending;                               // for ops that the host posts
  OwnStream receiving;                             // for receives that the host posts
  OwnStream arriving;                              // waits for receives on behalf of kernels
  std::list<std::shared_ptr<Operation>> prepared;  // not posted yet, in order

  std::mutex mutex;                               // guards the members below
  std::deque<std::shared_ptr<Operation>> posted;  // receives that may not have ended, oldest first
};

}  // namespace onstream::mp
