// How a Fabric begins - it finds the ranks, opens the device, listens to the mesh, agrees - and how it ends.
//
// The constructor and the destructor block: for the other ranks, by bootstrap_timeout_s, and for threads that end.
#include <algorithm>
#include <set>
#include <utility>

#include "onstream/base/log.hpp"
#include "onstream/bootstrap/wire.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/transport/fabric_implementation.hpp"

namespace onstream {

namespace {

// For steps before the ranks listen to each other: the others would only see that this rank is gone.
template <class Step>
auto telling(Store& store, const Step& step) {
  try {
    return step();
  } catch (const std::exception& error) {
    store.tell_failure(error.what());
    throw;
  }
}

// Releases first the memory that earlier worlds of the process let go of: freeing pinned memory waits for running
// kernels, and holds up the launches that those may wait for (docs/decisions/0005).
std::shared_ptr<Device> opened_device(const Launch& launch, const Parameters& parameters) {
  static_cast<void>(DeferredRelease::of_process().finish(1.0));  // seconds at most
  return open_device(parameters.device, launch.local_rank);
}

}  // namespace

Fabric::Implementation::Implementation(const Launch& launch, const Parameters& parameters)
    : launch_(launch),
      parameters_(valid(launch, parameters)),
      store_(launch, Deadline(parameters.bootstrap_timeout_s)),
      paths_(telling(store_, [&] { return path::Table(parameters_); })),
      device_(telling(store_, [&] { return opened_device(launch, parameters); })),
      own_memory_(std::make_shared<OwnMemory>(device_)),
      streams_(telling(store_, [&] { return std::make_shared<StreamPool>(device_); })),
      board_(telling(store_, [&] { return std::make_shared<Board>(*device_, *own_memory_, launch, parameters); })),
      mesh_owner_(telling(store_,
                          [&] {
                            return std::make_unique<Mesh>(
                                launch, store_, Deadline(parameters.bootstrap_timeout_s),
                                MeshOptions{parameters.network_interface, parameters.network_timeout_s, {}});
                          })),
      mesh_(*mesh_owner_),
      hosts_(launch_, parameters_, mesh_,
             {[this](int peer) { board_->set_left(peer); },
              [this](int peer, const std::string& why) { take_death(peer, why, Logged::now); },
              [this](const std::string& why) { abort(concat("rank ", launch_.rank, ", network: ", why)); }}),
      peer_mapping_(device_, mesh_, hosts_, launch.rank, parameters),
      watch_(std::make_shared<Watchdog>(
          board_->wait_view().timeout_ns, board_->wait_view().abort,
          [this](const FaultReport& fault) { take_from_watch(fault); },
          [board = board_](int peer) { return board->has_left(peer); })) {
  listen();
  mesh_.start();
  try {
    meet();
    connect_hosts();
  } catch (...) {
    hosts_.leave();
    mesh_owner_.reset();  // its thread uses the members that are destroyed next
    throw;
  }
}

// Names the handlers of the mesh's topics, before its thread starts.
void Fabric::Implementation::listen() {
  for (const Cause cause : {Cause::failure, Cause::interrupt, Cause::deadline}) {
    mesh_.on(topic_of(cause), [this, cause](int, const std::string& reason, Fd) {
      fail_world(reason, cause, Logged::by_another);
      return std::string();
    });
  }
  mesh_.on("fault", [this](int, const std::string& bytes, Fd) {
    fault_log_.add_remote(unpack_fault(bytes, launch_.size));
    return std::string();
  });
  // A fault of a send that was over before its receive met it. Logged, as its rank may never ask how its sends ended.
  mesh_.on("send.fault", [this](int, const std::string& bytes, Fd) {
    FaultReport fault = unpack_fault(bytes, launch_.size);
    require(fails_one_op(fault.status), "a rank tells of the end of a send that fails the world");
    log(LogLevel::warn, describe(fault));
    fault.logged = true;
    fault_log_.add(fault);
    return std::string();
  });
  // Told to all, though all see it: a rank that leaves for it says goodbye later than this.
  mesh_.on_death([this](int peer, const std::string& why) {
    take_death(peer, why, Logged::now);
    for (int other = 0; other < launch_.size; ++other) {
      if (other != launch_.rank) tell_death(other, peer, why);
    }
  });
  mesh_.on("death", [this](int, const std::string& reported, Fd) {
    wire::Unpacker body(reported);
    const std::uint32_t peer = body.u32();
    require(peer < static_cast<std::uint32_t>(launch_.size), "rank ", peer, " cannot have died");
    take_death(static_cast<int>(peer), std::string(body.text()), Logged::by_another);
    return std::string();
  });
  mesh_.on_leave([this](int peer, const std::string&) { hosts_.note_goodbye(peer); });
  mesh_.on_tick([this] { tick(); });
}

// Before anything is made of them.
const Parameters& Fabric::Implementation::valid(const Launch& launch, const Parameters& parameters) {
  parameters.validate();
  set_log(log_level_of(parameters.log), launch.size > 1 ? launch.rank : -1);
  const std::vector<std::string>& unknown = parameters.unknown_variables();
  if (launch.rank == 0 && !unknown.empty()) {
    log_once(LogLevel::warn, "unknown variables", "ignored, as no parameter has such a name:", listed(unknown),
             " (docs/parameters.md)");
  }
  return parameters;
}

// In the mesh's thread: nothing may escape.
void Fabric::Implementation::tick() {
  try {
    look_at_board();
    hosts_.tick();
    constexpr unsigned kTicksBetweenSweeps = 20;
    if (++ticks_ % kTicksBetweenSweeps == 0) peer_mapping_.sweep();
  } catch (const std::exception& error) {
    abort(concat("rank ", launch_.rank, ": ", error.what()));
  }
}

void Fabric::Implementation::connect_hosts() {
  if (hosts_.several() && device_->kind() != DeviceKind::host) {
    fail(ErrorCode::unsupported, "ranks of several hosts use the host device in this version (device=host), and rank ",
         launch_.rank, " has ", device_->name());
  }
  hosts_.connect(Deadline(parameters_.bootstrap_timeout_s));
  if (hosts_.several()) board_->set_turn(hosts_.network()->host_turn());
}

// Nobody goes on before all listen.
void Fabric::Implementation::meet() {
  const std::string mine = device_->identity();
  // A line, one whether this host is crowded, and one for each device that this one stores whole lines into.
  std::string own_status = concat(mine, '\n', is_crowded(launch_) ? 1 : 0, '\n', parameters_.host_ranks);
  for (const std::string& other : device_->whole_lines_to()) own_status += concat('\n', other);
  const auto all = mesh_.all_gather("the start of the world", own_status, Deadline(parameters_.bootstrap_timeout_s));
  std::vector<std::string> devices;
  std::vector<std::set<std::string>> whole_to(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::vector<std::string_view> lines = lines_of(all[rank]);
    devices.emplace_back(lines.at(0));
    crowded_ = crowded_ || lines.at(1) == "1";
    require(lines.at(2) == concat(parameters_.host_ranks), "host_ranks is the same on every rank, but rank ", rank,
            " has ", lines.at(2), ", and rank ", launch_.rank, " has ", parameters_.host_ranks);
    whole_to[rank].insert(lines.begin() + 3, lines.end());
  }
  const auto sharers = static_cast<int>(std::ranges::count(devices, mine));
  block_limit_ = std::max(1, device_->max_blocks() / (2 * sharers));
  whole_lines_ = std::ranges::all_of(whole_to, [&](const std::set<std::string>& reached) {
    return std::ranges::all_of(devices, [&](const std::string& one) { return reached.contains(one); });
  });
}

// The watch's thread and that for copies use the mesh, and the mesh's thread runs this object's handlers: they end
// first. Ops that a graph replays from now on end at once.
Fabric::Implementation::~Implementation() {
  try {
    look_at_board();  // peers hear before the goodbye of the faults that they cannot know,
    if (board_->aborted() && !failed_by_leaving_)
      tell_cause();  // and why this rank leaves, also where another rank told it
  } catch (const std::exception& error) {
    log(LogLevel::error, "at the end of the world: ", error.what());
  }
  watch_->mute();
  copies_.reset();
  peer_mapping_.stop_relaying();
  hosts_.leave();
  mesh_owner_.reset();
  board_->set_abort(Cause::failure);
}

Fabric::Fabric(const Launch& launch, const Parameters& parameters)
    : implementation_(new Implementation(launch, parameters)) {}
Fabric::~Fabric() = default;

}  // namespace onstream
