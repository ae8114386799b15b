// A stream of a test's own: created, and destroyed at the end of the scope, also if a check throws.
#pragma once

#include "onstream/device.hpp"
#include "onstream/world.hpp"

namespace onstream::test {

class OwnStream {
 public:
  explicit OwnStream(Device& device) : device_(device), stream_(device.create_stream()) {}
  explicit OwnStream(World& world) : OwnStream(world.device()) {}
  ~OwnStream() { device_.destroy_stream(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  operator Stream() const { return stream_; }

 private:
  Device& device_;
  Stream stream_;
};

}  // namespace onstream::test
