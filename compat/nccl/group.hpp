// Groups: the calls of a thread between ncclGroupStart and the last ncclGroupEnd, which starts them together.
//
// A thread's own; its lists keep their memory, so that a group of a few ops allocates nothing. A call that is refused
// within a group spoils it: ncclGroupEnd tells that again and starts nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "call.hpp"

namespace onstream::nccl {

// The findings of a making as it begins. The parent's world stays until `within` goes, even if it is ended meanwhile.
struct Begun {
  std::uint64_t number = 0;  // of the parent's makings of this kind
  std::unique_ptr<const Inside> within;
};

// A communicator that shall be made: for which all its ranks must come, so those of one group come side by side.
struct Making {
  ncclComm* comm = nullptr;  // null for a rank that gets none
  ncclComm_t* out = nullptr;
  Options::Start start = Options::Start::blocking;
  std::function<void(Begun begun)> make;
  // The count of the parent's makings of this kind, where there is a parent: it counts and numbers each as it begins,
  // so that those that were refused before do not count.
  std::uint64_t* count = nullptr;
  ncclComm* within = nullptr;  // whose world it takes part in, if it does
};

bool in_group();
// Runs the op, or keeps it for the group's end. Its communicator was ready.
void submit(const Call& op);
// Makes it, or keeps it for the group's end. ncclInProgress: it is made in the background. Throws, with the handle
// taken back.
ncclResult_t submit(Making making);
// For calls that cannot wait for the group's end: refuses if this thread's group has ops of the communicator, or makes
// others from it.
void demand_no_ops(const ncclComm& comm);
// A call was refused.
void note_in_group(const Refusal& refusal);

}  // namespace onstream::nccl
