// Communicators made: by an id, for all of a process's devices, from another one.
#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "group.hpp"
#include "identity.hpp"
#include "onstream/base/error.hpp"
#include "onstream/device.hpp"
#include "onstream/transport/fabric.hpp"

using namespace onstream;
using namespace onstream::nccl;

namespace {

void demand_ranks(int size, int rank) {
  demand(size >= 1, "a communicator of ", size, " ranks cannot be");
  demand(rank >= 0 && rank < size, "rank ", rank, " is not one of 0 to ", size - 1);
}

ncclResult_t init(ncclComm_t* out, int size, const ncclUniqueId& id, int rank, const Options& options) {
  demand(out != nullptr, "there is no place for the communicator");
  publish(out, nullptr);
  demand_ranks(size, rank);
  const Launch launch = launch_of(id, rank, size);
  ncclComm& comm = make_comm(rank, size, options);
  publish(out, &comm);
  return submit({&comm, out, options.start, [&comm, launch](const Begun&) { start(comm, launch); }});
}

// --- all devices of a process ---

// Without a list the first ones; the host device is one, on which all ranks are then.
std::vector<int> devices_of(int count, const int* devices) {
  demand(count >= 1, count, " devices are none to communicate between");
  const auto rows = list_devices();
  const auto gpus = static_cast<int>(rows.size()) - 1;  // the host device is the last
  std::vector<int> found(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    int& device = found[static_cast<std::size_t>(i)];
    if (devices != nullptr) device = devices[i];
    if (devices == nullptr) device = gpus > 0 ? i : 0;
    demand(device >= 0 && device < std::max(gpus, 1), "device ", device, " does not exist; there are ",
           std::max(gpus, 1));
  }
  const std::set<int> different(found.begin(), found.end());
  if (devices != nullptr && different.size() != found.size()) {
    refuse(ncclInvalidUsage, "a device is named twice among ", count);
  }
  return found;
}

// --- from another communicator ---

struct Wish {
  int color;
  int key;
  int rank;  // in the parent
};

// The wishes of all ranks of the parent, all of which must come.
std::vector<Wish> wishes_of(ncclComm& parent, std::uint64_t number, int color, int key) {
  const Wish mine{color, key, parent.rank};
  const auto all = parent.world->fabric()->all_gather(concat("ncclCommSplit ", number),
                                                      {reinterpret_cast<const char*>(&mine), sizeof mine});
  std::vector<Wish> wishes;
  for (const std::string& text : all) {
    if (text.size() != sizeof(Wish)) refuse(ncclInternalError, "a rank splits by another version of the library");
    std::memcpy(&wishes.emplace_back(), text.data(), sizeof(Wish));
  }
  return wishes;
}

// Where the ranks of the same color meet. None for a rank that has no color.
std::optional<Launch> launch_to_split(ncclComm& parent, std::uint64_t number, int color, int key, ncclComm* made) {
  std::vector<Wish> wishes = wishes_of(parent, number, color, key);
  if (made == nullptr) return std::nullopt;
  std::erase_if(wishes, [&](const Wish& wish) { return wish.color != color; });
  std::ranges::stable_sort(wishes, {}, &Wish::key);
  const auto mine = std::ranges::find(wishes, parent.rank, &Wish::rank);
  made->rank = static_cast<int>(mine - wishes.begin());
  made->size = static_cast<int>(wishes.size());
  return launch_beside(parent.world->launch(), concat("split ", number, " color ", color), made->rank, made->size);
}

// The parent's end waits until its ranks have met, and no longer: the child may still start then.
void split(ncclComm& parent, Begun begun, int color, int key, ncclComm* made) {
  const std::optional<Launch> launch =
      in_codes_of(parent, [&] { return launch_to_split(parent, begun.number, color, key, made); });
  begun.within.reset();
  if (launch) start(*made, *launch);
}

std::set<int> excluded_of(const ncclComm& parent, const int* list, int count) {
  demand(count >= 0 && (list != nullptr || count == 0), count, " ranks to leave out at ",
         static_cast<const void*>(list));
  const std::set<int> excluded(list, list + count);
  demand(excluded.size() == static_cast<std::size_t>(count), "a rank to leave out is named twice");
  for (const int rank : excluded) {
    demand(rank >= 0 && rank < parent.size, "rank ", rank, " does not exist; the communicator has ranks 0 to ",
           parent.size - 1);
    demand(rank != parent.rank, "rank ", rank, " leaves itself out; only the ranks that stay make this call");
  }
  return excluded;
}

ncclComm& child_of(ncclComm& parent, int rank, int size, const Options& options) {
  ncclComm& made = make_comm(rank, size, options);
  made.device = parent.device;
  made.on_host = parent.on_host;
  return made;
}

// The launch of a parent that may be shrunk: also of one that has failed.
Launch launch_to_shrink(ncclComm& parent) {
  const Looking looking(parent);
  const State state = parent.state.load(std::memory_order_acquire);
  if ((state != State::ready && state != State::revoked) || looking.world() == nullptr) refuse_state(parent);
  return looking.world()->launch();
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return guarded(__func__, nullptr, [&] {
    demand(id != nullptr, "there is no place for the id");
    *id = make_id();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return guarded(__func__, nullptr, [&] { return init(comm, ranks, id, rank, {}); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return guarded(__func__, nullptr, [&] { return init(comm, ranks, id, rank, options_of(config)); });
}

// One place to meet is enough on one host, so the other ids are not used.
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int id_count, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  return guarded(__func__, nullptr, [&] {
    demand(ids != nullptr && id_count >= 1 && id_count <= ranks, id_count, " ids for ", ranks, " ranks");
    return init(comm, ranks, ids[0], rank, options_of(config));
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return guarded(__func__, nullptr, [&] {
    demand(comms != nullptr, "there is no place for the communicators");
    const std::vector<int> found = devices_of(count, devices);
    const ncclUniqueId id = make_id();
    ncclResult_t begun = ncclSuccess;
    ncclGroupStart();
    try {
      for (int rank = 0; rank < count; ++rank) {
        ncclComm& comm = make_comm(rank, count, {});
        comm.device = found[static_cast<std::size_t>(rank)];
        comms[rank] = &comm;
        submit({&comm, &comms[rank], Options::Start::blocking,
                [&comm, launch = launch_of(id, rank, count)](const Begun&) { start(comm, launch); }});
      }
    } catch (...) {
      begun = told("ncclCommInitAll", nullptr);  // spoils the group
    }
    const ncclResult_t ended = ncclGroupEnd();  // of an outer group, this tells nothing
    return begun == ncclSuccess ? ended : begun;
  });
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  return guarded(__func__, handle, [&] {
    ncclComm& parent = ready(handle);
    demand(out != nullptr, "there is no place for the communicator");
    publish(out, nullptr);
    demand(color >= 0 || color == NCCL_SPLIT_NOCOLOR, "the color ", color,
           " is neither a number from 0 on nor NCCL_SPLIT_NOCOLOR");
    const Options options = options_of(config, parent.options);
    ncclComm* const made = color == NCCL_SPLIT_NOCOLOR ? nullptr : &child_of(parent, 0, 1, options);
    publish(out, made);
    const auto make = [&parent, color, key, made](Begun begun) { split(parent, std::move(begun), color, key, made); };
    return submit({made, out, options.start, make, &parent.splits, &parent});
  });
}

ncclResult_t ncclCommShrink(ncclComm_t handle, int* list, int count, ncclComm_t* out, ncclConfig_t* config, int flags) {
  return guarded(__func__, handle, [&] {
    ncclComm& parent = known(handle);
    const Launch of_parent = launch_to_shrink(parent);
    demand(out != nullptr, "there is no place for the communicator");
    publish(out, nullptr);
    demand(flags == NCCL_SHRINK_DEFAULT || flags == NCCL_SHRINK_ABORT, "the flags ", flags,
           " are neither NCCL_SHRINK_DEFAULT nor NCCL_SHRINK_ABORT");
    const std::set<int> excluded = excluded_of(parent, list, count);
    std::string names;
    for (const int rank : excluded) names += concat(' ', rank);
    const auto below = static_cast<int>(std::distance(excluded.begin(), excluded.lower_bound(parent.rank)));
    const Options options = options_of(config, parent.options);
    ncclComm& made = child_of(parent, parent.rank - below, parent.size - static_cast<int>(excluded.size()), options);
    if (flags == NCCL_SHRINK_ABORT) abort(parent, "ncclCommShrink");
    publish(out, &made);
    const auto make = [&made, of_parent, names](const Begun& begun) {
      start(made, launch_beside(of_parent, concat("shrink ", begun.number, " without", names), made.rank, made.size));
    };
    return submit({&made, out, options.start, make, &parent.shrinks});
  });
}

ONSTREAM_NCCL_TWIN(ncclGetUniqueId);
ONSTREAM_NCCL_TWIN(ncclCommInitRank);
ONSTREAM_NCCL_TWIN(ncclCommInitRankConfig);
ONSTREAM_NCCL_TWIN(ncclCommInitRankScalable);
ONSTREAM_NCCL_TWIN(ncclCommInitAll);
ONSTREAM_NCCL_TWIN(ncclCommSplit);
ONSTREAM_NCCL_TWIN(ncclCommShrink);
