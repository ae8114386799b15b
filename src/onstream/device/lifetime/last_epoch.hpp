// LastEpoch: which kernel took the newest epoch of an order - of a channel's collectives, of a team's barriers - for
// the next one, which takes its epoch before that one has ended (docs/decisions/0015) where nothing else can come
// between.
#pragma once

#include "onstream/device.hpp"

namespace onstream {

class LastEpoch {
 public:
  // Before the next kernel of the order is enqueued: whether nothing of ours lies between the newest one and it. A
  // kernel of ours in between may wait for work behind another kernel of the order, on another stream or GPU, and lets
  // the next kernel in meanwhile: that one then takes its epoch late. A kernel of the program lets nobody in before it
  // has ended.
  bool is_in_front(const Device& device, Stream stream, bool captured) {
    before_ = device.behind(stream, captured);
    return known_ && stream_.handle == stream.handle && !before_.joins && before_.launches == behind_.launches &&
           before_.capture == behind_.capture;
  }

  // The next one has been enqueued, as so many kernels; if it has not, the one after it is late. Kernels that another
  // thread has launched on the stream meanwhile may lie behind it.
  void set(const Device& device, Stream stream, bool captured, int kernels) {
    stream_ = stream;
    behind_ = device.behind(stream, captured);
    known_ = behind_.launches - before_.launches <= static_cast<std::uint64_t>(kernels);
  }

 private:
  Stream stream_;
  Behind before_;
  Behind behind_;
  bool known_ = false;
};

}  // namespace onstream
