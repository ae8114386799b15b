// World as Python holds it: the base class of onstream.World, which adds arrays, plans and context managers in Python.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "arrays/blocks.hpp"
#include "op/requests.hpp"

namespace onstream::python {

class PyWorld {
 public:
  PyWorld(const Launch& launch, const Parameters& parameters);  // blocks until all ranks are there; Ctrl-C works
  ~PyWorld();
  PyWorld(const PyWorld&) = delete;
  PyWorld& operator=(const PyWorld&) = delete;

  std::shared_ptr<World> open() const { return state_->open(); }
  const std::shared_ptr<WorldState>& state() const { return state_; }
  const Launch& launch() const { return launch_; }  // also once closed
  bool closed() const { return state_->world == nullptr || state_->guard.in_child(); }
  void close();
  std::string device() const;

 private:
  // The world's end, to be called without the GIL.
  std::function<void()> take_world();
  std::vector<std::shared_ptr<Event>> stream_ends();
  void end_calls();
  void forget_buffers();
  Launch launch_;
  std::shared_ptr<WorldState> state_;
};

// "device", "pinned", "managed" or "host". Throws invalid_argument for other words.
MemoryKind kind_from(const std::string& name);

}  // namespace onstream::python
