// Op: one step of communication, as the faces emit it and the plan runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "onstream/base/status.hpp"
#include "onstream/device/kernel/atomics.hpp"
#include "onstream/device/kernel/compare.hpp"
#include "onstream/layout/layout.hpp"
#include "onstream/path/path.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

struct Op {
  OpKind kind = OpKind::none;
  int peer = -1;
  int tag = 0;
  void* address = nullptr;  // local memory: source of send and put, destination of recv and get, old value of atomic
  Layout layout = Layout::contiguous(0);
  void* remote = nullptr;  // put, get, atomic: the peer's memory as this rank addresses it (Segment::peer); signal,
                           // wait: the counter
  std::shared_ptr<Segment> segment;  // that holds `remote`, or the counter of a wait: the plan keeps it
  Layout remote_layout = Layout::contiguous(0);
  std::uint64_t value = 0;            // signal, atomic: the operand; wait: the counter's growth per launch
  std::uint64_t expected = 0;         // atomic compare_swap
  AtomicOp atomic = AtomicOp::fetch;  // of kind atomic or signal (add, set), on a word of layout.bytes()
  std::optional<Until> until;         // wait: how its word compares at the end of every launch; none: it has grown
  Path path = Path::automatic;
  std::string element;  // name of the element type, to be compared with the other side's; "" if not told
  std::string note;     // the emitter's name for it: "halo axis 0-", for explain()
};

struct PlanOp {  // one row of Plan::explain()
  Op op;
  Path path = Path::automatic;
  std::string why;  // "2 KiB <= ll_max_bytes 8 KiB", "path=copy set by the call", ...
};

// Per op of the last launches: where time went on the device's clock.
struct OpTime {  // of ops, not of collectives; all zero where the stream and the copy engine do everything: neither can
                 // look at a clock
  std::string what;           // "send to 1, halo axis 0-"
  std::uint64_t wait_ns = 0;  // waiting for the peer
  std::uint64_t move_ns = 0;  // moving bytes
  std::uint64_t launches = 0;
};

}  // namespace onstream
