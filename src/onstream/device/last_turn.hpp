// LastTurn: which kernel took the newest turn of an order - of a channel's collectives, of a team's barriers - for the
// next one, which takes its turn before that one has ended (docs/decisions/0015) where nothing else can come between.
#pragma once

#include "onstream/device/device.hpp"

namespace onstream {

class LastTurn {
 public:
  // Whether nothing of ours lies between the newest one and the next on this stream. A kernel of ours in between may
  // wait for what comes behind another one of the order, on another stream or GPU, and lets the next kernel in
  // meanwhile: that one then takes its turn late. A kernel of the program lets nobody in before it has ended.
  bool is_in_front(const Device& device, Stream stream, bool captured) const {
    const Behind now = device.behind(stream, captured);
    return stream_.handle == stream.handle && !now.joins && now.launches == behind_.launches &&
           now.capture == behind_.capture;
  }

  // The newest one has just been enqueued.
  void set(const Device& device, Stream stream, bool captured) {
    stream_ = stream;
    behind_ = device.behind(stream, captured);
  }

 private:
  Stream stream_;
  Behind behind_;
};

}  // namespace onstream
