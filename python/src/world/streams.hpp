// Stream and Graph as Python holds them, and which stream a `stream=` argument means.
//
// A Stream keeps alive the arrays of the operations enqueued on it until that work has finished; while it is captured,
// the Graph takes them and keeps them for its own life. All members are called with the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays/holds.hpp"
#include "onstream/device.hpp"

namespace onstream::python {

namespace nb = nanobind;

struct WorldState;

class PyStream {
 public:
  PyStream(std::shared_ptr<Device> device, std::shared_ptr<WorldState> state);
  ~PyStream();
  PyStream(const PyStream&) = delete;
  PyStream& operator=(const PyStream&) = delete;

  Stream stream() const { return stream_; }
  Device& device() const { return *device_; }
  const std::shared_ptr<WorldState>& state() const { return state_; }
  void note(const std::shared_ptr<WorldState>& world);  // ops of it go here
  void check_worlds() const;                            // throws the failure of a world whose ops are here

  void keep(Hold hold);     // until the work enqueued so far has finished
  void seal();              // records an event behind the work of the kept arrays; without the GIL
  void release_finished();  // of the sealed batches
  void begin_capture();     // in this thread: see choose_op_stream()
  std::shared_ptr<Graph> end_capture();
  std::vector<Hold> take_captured();   // the arrays kept since the capture began
  bool used() const { return used_; }  // since the capture began, also by ops that have nothing to move
  std::weak_ptr<void> life() const { return alive_; }

 private:
  static constexpr std::size_t kBatch = 32;
  struct Batch {
    std::shared_ptr<Event> event;
    std::vector<Hold> holds;
  };
  std::shared_ptr<Device> device_;
  std::shared_ptr<WorldState> state_;              // a stream may outlive its world, but not keep it from closing
  std::vector<std::weak_ptr<WorldState>> others_;  // worlds that enqueued here, besides
  Stream stream_;
  std::deque<Batch> batches_;  // oldest first, each with the event behind its work
  std::vector<Hold> recent_;   // not in a batch yet
  bool used_ = false;
  std::shared_ptr<void> alive_ = std::make_shared<int>();
};

struct PyGraph {
  PyGraph() = default;
  PyGraph(const PyGraph&) = delete;
  PyGraph& operator=(const PyGraph&) = delete;

  std::shared_ptr<WorldState> state;
  std::shared_ptr<Graph> graph;  // empty while the capture lasts
  std::string broken;            // why it never came to be
  PyStream* home = nullptr;      // that it was captured on, if its life has not expired
  std::weak_ptr<void> home_life;
  std::vector<Hold> holds;
};

// The keeper of an op's arrays until its stream has passed the op: a Stream of ours; the array's own library, which
// gives memory back in the order of its current stream; or, if neither does, the world (WorldState::keep).
enum class Keeper { stream, library, world };

// The current stream of a device array's own library, and whether that gives the memory back in the stream's order.
struct Natural {
  Stream stream;
  bool ordered = false;
};
// As onstream/_arrays.py tells it.
using NaturalArgument = std::optional<std::pair<std::uintptr_t, bool>>;
std::optional<Natural> natural_from(const NaturalArgument& told);

// A `stream=` argument, resolved. Without a stream the caller waits on the host.
struct StreamChoice {
  std::optional<Stream> stream;
  PyStream* mine = nullptr;  // if the stream is one of ours
  Keeper keeper = Keeper::library;
};

// `given` is None (then `natural`: the array library's own current stream, or nothing for a host array), "host", a
// Stream of this world's device, a torch or cupy stream, anything with __cuda_stream__, or a CUDA stream's address.
// A Stream of another world then reports failures of this one too. Throws invalid_argument or TypeError with the
// reason.
StreamChoice choose_stream(nb::handle given, std::optional<Natural> natural, const std::shared_ptr<WorldState>& world);

// choose_stream() for the start of an operation: inside `with world.capture(stream)`, in that thread, no `stream=`
// means the stream that is being captured.
StreamChoice choose_op_stream(nb::handle given, std::optional<Natural> natural,
                              const std::shared_ptr<WorldState>& world);

}  // namespace onstream::python
