#include "onstream/transport/fabric.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/heartbeat.hpp"
#include "onstream/base/log.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/bootstrap/wire.hpp"
#include "onstream/device.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/transport/board.hpp"
#include "onstream/transport/fault_log.hpp"
#include "onstream/transport/hosts.hpp"
#include "onstream/transport/peer_mapping.hpp"
#include "onstream/transport/segment.hpp"
#include "onstream/transport/status_exchange.hpp"

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

constexpr double kSettleS = 0.3;  // six times the beat at which a host looks for faults of its kernels

}  // namespace

class Fabric::Implementation {
 public:
  Implementation(const Launch& launch, const Parameters& parameters)
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

  // Before anything is made of them.
  static const Parameters& valid(const Launch& launch, const Parameters& parameters) {
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
  void tick() {
    try {
      look_at_board();
      hosts_.tick();
      constexpr unsigned kTicksBetweenSweeps = 20;
      if (++ticks_ % kTicksBetweenSweeps == 0) peer_mapping_.sweep();
    } catch (const std::exception& error) {
      abort(concat("rank ", launch_.rank, ": ", error.what()));
    }
  }

  void connect_hosts() {
    if (hosts_.several() && device_->kind() != DeviceKind::host) {
      fail(ErrorCode::unsupported,
           "ranks of several hosts use the host device in this version (device=host), and rank ", launch_.rank, " has ",
           device_->name());
    }
    hosts_.connect(Deadline(parameters_.bootstrap_timeout_s));
    if (hosts_.several()) board_->set_turn(hosts_.network()->host_turn());
  }

  // Nobody goes on before all listen.
  void meet() {
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
  ~Implementation() {
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

  // Returns the call's result; throws the world's story where its failure ended the call. A peer that does not answer
  // by the deadline fails the world, as any wait that passes its deadline does. Another rank may have met the failure
  // first: waits for the news of it for so long.
  template <class Call>
  auto or_story(const Call& call, double on_its_way_s = 0) {
    try {
      return call();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::timeout && !has_failed()) late(error.what());
      if (error.code() != ErrorCode::aborted) throw;
      for (const Deadline limit(on_its_way_s); !has_failed() && !limit.passed();) HostGroup::pause(1U << 20);
      check();
      throw;
    }
  }

  // Throws the story if the world has failed, beginning with the call (`topic`) that the failure stopped.
  void check_for(std::string_view topic, DidNot what_happened) {
    try {
      check();
    } catch (const Error& error) {
      fail_named(what_happened, launch_.rank, topic, error);
    }
  }

  std::vector<std::string> all_gather(std::string_view topic, std::string_view mine, std::string_view what_for = "") {
    check_for(topic, DidNot::start);
    try {
      return mesh_.all_gather(topic, mine, Deadline(parameters_.timeout_s));
    } catch (const Error& error) {
      check_for(topic, DidNot::end);  // the world's own story says more, if it has failed
      if (error.code() != ErrorCode::timeout) throw;
      late(concat(error.what(), " (parameter timeout_s)", what_for.empty() ? "" : ", for ", what_for));
    }
  }

  // The ranks' calls no longer match each other from here on.
  [[noreturn]] void late(const std::string& what) {
    note_reported();
    const std::string reason = concat("rank ", launch_.rank, ": ", what);
    abort(reason);
    throw Error(ErrorCode::timeout, concat(what, '\n', story_of(*failure(), reason)));
  }

  std::vector<std::string> agree(std::string_view topic, const std::function<std::string()>& mine) {
    check_for(topic, DidNot::start);
    std::string word;
    try {
      word = word_of(mine);
    } catch (const Error& error) {
      late(concat(topic, ": ", error.what()));
    }
    return agreed(all_gather(topic, word));
  }

  std::shared_ptr<Segment> segment(std::size_t bytes, MemoryKind kind, Mapped mapped) {
    const auto mine = [&] {
      require(bytes > 0, "a segment needs at least one byte");
      return concat(bytes, " B of ", name_of(kind), " memory");
    };
    require_alike(agree("the allocation of a segment", mine), "a segment is the same on every rank, but", "asks for");
    constexpr double kOnItsWayS = 1;
    const bool staged = mapped == Mapped::by_path && parameters_.path == "stage";
    const std::string unmapped_why = staged ? "parameter path is stage" : "";
    const SegmentMaker maker{*device_,         peer_mapping_, hosts_, launch_.rank, launch_.size,
                             ++segments_made_, unmapped_why,  mapped, device_bytes_};
    const auto agree_on = [this](const std::function<std::string()>& notice) {
      return agree("the mapping of a segment", notice);
    };
    auto made = or_story([&] { return std::make_shared<MappedSegment>(maker, bytes, kind, agree_on); }, kOnItsWayS);
    segments_.add(made);
    return made;
  }

  void free(const std::shared_ptr<Segment>& segment, const std::function<void()>& agreed) {
    const auto mapped = std::dynamic_pointer_cast<MappedSegment>(segment);
    const std::string mine = mapped == nullptr ? std::string("no segment")
                             : mapped->freed() ? concat("segment ", mapped->number(), ", which was freed before")
                                               : concat("segment ", mapped->number());
    require_alike(all_gather("the end of a segment", mine), "a segment is freed by every rank at once, but", "frees");
    require(mapped != nullptr && !mapped->freed(), "free: ", mine);
    agreed();
    mapped->release();
  }

  static const char* topic_of(Cause cause) {
    switch (cause) {
      case Cause::interrupt: return "interrupt";
      case Cause::deadline: return "deadline";
      case Cause::failure: break;
    }
    return "abort";
  }

  void take_death(int peer, const std::string& why, Logged logged) {
    fault_log_.add_death(peer);
    fail_world(why, Cause::failure, logged);
  }

  void fail_world(const std::string& reason, Cause cause, Logged logged) {
    std::vector<int> gone;
    for (int peer = 0; peer < launch_.size; ++peer) {
      if (peer != launch_.rank && !mesh_.alive(peer)) gone.push_back(peer);
    }
    const bool quiet = cause == Cause::interrupt;
    const bool first = fault_log_.begin({reason, cause, !quiet && logged != Logged::by_another}, gone);
    const LogLevel level = logged == Logged::now ? LogLevel::error : LogLevel::info;
    if (first) log(quiet ? LogLevel::debug : level, "the world failed: ", reason);
    hosts_.fail();  // before the waits end: their calls end it for good before they return
    board_->set_abort(cause);
    mesh_.fail_all(reason);  // last: a thread that it wakes finds the world failed
  }

  // Tells every rank the first cause that this one knows: this rank's own end by a failure is only an effect, and may
  // come to others sooner than the cause does.
  void abort(const std::string& reason, Cause cause = Cause::failure, Logged logged = Logged::now) {
    guard_.check("this world");
    fail_world(reason, cause, logged);
    tell_cause();
  }
  // Deaths go first: a rank that hears of the failure knows the dead ranks.
  void tell_cause() {
    const FaultLog::First first = fault_log_.first();
    const std::vector<int> dead = fault_log_.failure().dead;
    for (int peer = 0; peer < launch_.size; ++peer) {
      if (peer == launch_.rank) continue;
      for (const int one : dead) tell_death(peer, one, first.reason);
      mesh_.notify(peer, topic_of(first.cause), first.reason);
    }
  }
  void tell_death(int listener, int dead, const std::string& why) {
    if (listener == dead) return;
    mesh_.notify(listener, "death", wire::Packer().u32(static_cast<std::uint32_t>(dead)).text(why).body());
  }

  void leave() {
    guard_.check("this world");
    leaving_.store(true, std::memory_order_release);
    failed_by_leaving_ = fault_log_.begin({kLeft, Cause::interrupt, false}, {});
    board_->set_abort(Cause::interrupt);
    mesh_.fail_all(kLeft);  // last: a thread that it wakes finds the world left
  }

  // Takes new faults off the board: those of one op are told to the peer that cannot know, the rest fails the world.
  void look_at_board() {
    guard_.check("this world");
    const std::lock_guard looking(board_mutex_);
    if (!board_->has_news()) return;
    for (const Board::Collected& news : board_->collect()) {
      FaultReport report = news.report;
      report.timeout_s = parameters_.timeout_s;
      report.word = segments_.place_of(reinterpret_cast<const void*>(report.word.at));
      const bool late = report.status == Status::timeout && report.plan == 0;
      if (late && (report.op == OpKind::recv || report.op == OpKind::probe) && look_aside_) look_aside_(report);
      if (news.tell_peer && report.peer != launch_.rank) {
        const FaultReport theirs{.rank = report.peer,
                                 .status = report.status,
                                 .op = OpKind::send,
                                 .peer = launch_.rank,
                                 .tag = report.tag,
                                 .bytes = report.extra,
                                 .extra = report.bytes};
        mesh_.notify(report.peer, "send.fault", pack_fault(theirs));
      }
      take(report, news.owed ? FaultLog::ReportedBy::by_call : FaultLog::ReportedBy::by_world);
    }
  }

  void set_look_aside(std::function<void(FaultReport&)> look) {
    const std::lock_guard looking(board_mutex_);
    look_aside_ = std::move(look);
  }

  void take(FaultReport report, FaultLog::ReportedBy reported = FaultLog::ReportedBy::by_world) {
    if (!fault_log_.add(report, reported) || leaving()) return;
    if (report.status == Status::timeout) is_late_.store(true, std::memory_order_relaxed);
    for (int peer = 0; peer < launch_.size; ++peer) {
      if (peer != launch_.rank) mesh_.notify(peer, "fault", pack_fault(report));
    }
    if (report.status != Status::aborted) {
      abort(describe(report), report.status == Status::timeout ? Cause::deadline : Cause::failure);
    } else if (const std::string who = left_by(report); !who.empty() && !board_->aborted()) {
      abort(concat(who, " left the world, and rank ", report.rank, " still waited for it: ", what_of(report)));
    }
    if (report.status == Status::timeout) hint_at_cause();
  }

  void report_timeout(const std::string& what) {
    is_late_.store(true, std::memory_order_relaxed);
    abort(described_late(concat("rank ", launch_.rank, ": ", what), parameters_.timeout_s), Cause::deadline);
    hint_at_cause();
  }

  void hint_at_cause() {
    if (const std::string hint = device_->timeout_hint(); !hint.empty()) log_once(LogLevel::warn, hint, hint);
  }

  // In the watch's thread: nothing may escape.
  void take_from_watch(FaultReport report) {
    report.rank = launch_.rank;
    try {
      take(report);
    } catch (const std::exception& error) {
      abort(concat("rank ", launch_.rank, ": ", error.what()));
    }
  }

  // The peer that left while an op of this rank still waited; "" if none did. A kernel that waits for several peers at
  // once may name another of them.
  std::string left_by(const FaultReport& fault) const {
    if (fault.peer < 0) return board_->all_left() ? "every other rank" : "";
    if (board_->has_left(fault.peer)) return concat("rank ", fault.peer);
    for (int peer = 0; peer < launch_.size; ++peer) {
      if (board_->has_left(peer)) return concat("rank ", peer);
    }
    return "";
  }

  // For waits that leave() has ended.
  void check_left() const {
    if (leaving()) throw Error(ErrorCode::closed, concat("rank ", launch_.rank, ": ", kLeft));
  }
  void note_reported() { reported_.store(true, std::memory_order_release); }
  bool leaving() const { return leaving_.load(std::memory_order_acquire); }

  // No call returns from a failed world while the network may still touch the memory of another one.
  void end_network() const {
    if (hosts_.network() != nullptr) hosts_.network()->turn();
  }

  void check_unreported() {
    if (has_failed() && !leaving() && fault_log_.has_fatal() && !reported_.load(std::memory_order_acquire))
      check_waited();
  }

  void check() {
    if (!has_failed()) return;
    end_network();
    note_reported();
    check_left();
    const std::string story = settled_failure("")->story;
    throw Error(is_late_.exchange(false, std::memory_order_relaxed) ? ErrorCode::timeout : ErrorCode::aborted, story);
  }

  void check_waited() {
    if (!has_failed()) return;
    end_network();
    note_reported();
    check_left();
    const Failure failure = *settled_failure("");
    const bool late = std::ranges::any_of(failure.faults, [this](const FaultReport& fault) {
      return fault.rank == launch_.rank && fault.status == Status::timeout;
    });
    const bool unreported = is_late_.exchange(false, std::memory_order_relaxed);
    throw Error(late || unreported ? ErrorCode::timeout : ErrorCode::aborted, failure.story);
  }

  void check_waited(Status ended) {
    if (!has_failed()) return;
    end_network();
    note_reported();
    check_left();
    if (ended == Status::timeout) is_late_.store(false, std::memory_order_relaxed);
    throw Error(ended == Status::timeout ? ErrorCode::timeout : ErrorCode::aborted, settled_failure("")->story);
  }

  bool has_failed() {
    guard_.check("this world");
    if (board_->has_news()) look_at_board();
    return board_->aborted();
  }

  // The failure once the ranks that this one waits for have told their faults too: they may close a cycle of waits.
  // Waits for them at most kSettleS after the failure, as a rank that computes, or hangs, tells nothing.
  std::optional<Failure> settled_failure(const std::string& reported) {
    for (;;) {
      std::optional<Failure> now = failure();
      if (!now) return now;
      if (leaving() || !unheard(*now, launch_.rank) ||
          now_ns() > fault_log_.failed_at_ns() + static_cast<std::uint64_t>(kSettleS * 1e9)) {
        now->story = story_of(*now, reported);
        return now;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  std::optional<Failure> failure() {
    look_at_board();
    if (!board_->aborted()) return std::nullopt;
    Failure failure = fault_log_.failure();
    failure.ahead = ahead_;
    failure.story = story_of(failure);
    return failure;
  }

  std::vector<FaultReport> take_faults() {
    look_at_board();
    return fault_log_.take();
  }

  std::optional<FaultReport> reported(const FaultReport& fault) {
    look_at_board();
    return fault_log_.reported(fault);
  }

  const ForkGuard guard_;
  std::shared_ptr<Heartbeat> heart_ = Heartbeat::of_process();  // before the first deadline
  Launch launch_;
  Parameters parameters_;
  Store store_;
  path::Table paths_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<OwnMemory> own_memory_;
  std::shared_ptr<StreamPool> streams_;
  Ahead ahead_;
  std::shared_ptr<Board> board_;  // shared with graphs
  StreamTracker uses_{device_};
  std::unique_ptr<Mesh> mesh_owner_;
  Mesh& mesh_;
  Hosts hosts_;
  PeerMapping peer_mapping_;
  std::shared_ptr<Watchdog> watch_;
  std::unique_ptr<CopyThread> copies_ = std::make_unique<CopyThread>(
      device_, [this](const std::string& why) { abort("aborted: " + why, Cause::failure, Logged::now); },
      [this] { return board_->all_aborted(); });
  std::shared_ptr<std::atomic<std::size_t>> device_bytes_ = std::make_shared<std::atomic<std::size_t>>(0);
  int block_limit_ = 1;
  bool whole_lines_ = false;
  bool crowded_ = false;
  FaultLog fault_log_;
  static constexpr const char* kLeft = "this rank closed the world while others of its threads were inside calls";
  std::atomic<bool> leaving_ = false;
  std::atomic<bool> failed_by_leaving_ = false;
  std::atomic<bool> reported_ = false;  // some call has told the program that the world failed
  std::atomic<bool> is_late_ = false;   // a wait of this rank has passed its deadline, and no call has told so yet
  Segments segments_;

 private:
  unsigned ticks_ = 0;      // the mesh's thread's own
  std::mutex board_mutex_;  // held while the board is read
  std::function<void(FaultReport&)> look_aside_;
  std::atomic<std::uint64_t> segments_made_ = 0;
};

Fabric::Fabric(const Launch& launch, const Parameters& parameters)
    : implementation_(new Implementation(launch, parameters)) {}
Fabric::~Fabric() = default;

int Fabric::rank() const { return implementation_->launch_.rank; }
int Fabric::size() const { return implementation_->launch_.size; }
const Launch& Fabric::launch() const { return implementation_->launch_; }
const Parameters& Fabric::parameters() const { return implementation_->parameters_; }
const path::Table& Fabric::paths() const { return implementation_->paths_; }
const std::shared_ptr<Device>& Fabric::device() const { return implementation_->device_; }

void Fabric::require_one_host(std::string_view what) const {
  if (network() == nullptr) return;
  fail(ErrorCode::unsupported, what,
       " need all ranks on one host in this version; messages, and collectives of a "
       "world and its teams, go between hosts (docs/hosts.md)");
}
bool Fabric::is_remote(int peer) const { return implementation_->hosts_.is_remote(peer); }
int Fabric::host_of(int peer) const { return implementation_->hosts_.host_of(peer); }
const std::shared_ptr<net::NetworkProxy>& Fabric::network() const { return implementation_->hosts_.network(); }
std::vector<std::string> Fabric::all_gather(std::string_view topic, std::string_view mine, std::string_view what_for) {
  return implementation_->all_gather(topic, mine, what_for);
}
std::vector<std::string> Fabric::agree(std::string_view topic, const std::function<std::string()>& mine) {
  return implementation_->agree(topic, mine);
}
void Fabric::barrier(std::string_view topic) { (void)implementation_->all_gather(topic, ""); }
void Fabric::require_same(std::string_view rule, std::string_view verb, std::string_view mine) {
  const std::string_view agreed = rule.substr(0, rule.rfind(", but"));
  require_alike(all_gather(concat("the agreement that ", agreed), mine), rule, verb);
}
std::shared_ptr<Segment> Fabric::segment(std::size_t bytes, MemoryKind kind, Mapped mapped) {
  return implementation_->segment(bytes, kind, mapped);
}
void Fabric::free(const std::shared_ptr<Segment>& segment, const std::function<void()>& agreed) {
  implementation_->free(segment, agreed);
}
std::optional<std::uint64_t> Fabric::export_in_time(const void* address, std::size_t bytes, int peer) {
  return implementation_->or_story([&] { return implementation_->peer_mapping_.export_in_time(address, bytes, peer); });
}
std::optional<std::uint64_t> Fabric::export_to_peer(const void* address, std::size_t bytes, int peer) {
  return implementation_->or_story([&] { return implementation_->peer_mapping_.export_to_peer(address, bytes, peer); });
}
WordPlace Fabric::place_of(const void* word) const { return implementation_->segments_.place_of(word); }
std::shared_ptr<const void> Fabric::imported(int peer, std::uint64_t id) const {
  return implementation_->peer_mapping_.imported(peer, id);
}
std::string Fabric::why_not(const void* address, int peer) const {
  return implementation_->peer_mapping_.why_not(address, peer);
}
std::shared_ptr<Segment> Fabric::segment_of(int peer, const void* address, std::size_t bytes) const {
  return implementation_->segments_.of(peer, address, bytes);
}
void Fabric::guard(Stream stream, const void* address) const {
  if (auto segment = implementation_->segments_.of_any(size(), address)) device()->guard(stream, std::move(segment));
}
void Fabric::guard_segment(Stream stream, std::uint64_t number) const {
  if (auto segment = implementation_->segments_.numbered(number)) device()->guard(stream, std::move(segment));
}
WaitView Fabric::wait_view() const { return implementation_->board_->wait_view(); }
WaitView Fabric::wait_view(int peer) const { return implementation_->board_->wait_view(peer); }
bool Fabric::in_forked_child() const { return implementation_->guard_.in_child(); }
void Fabric::check_process() const { implementation_->guard_.check("this world"); }
bool Fabric::has_left(int peer) const { return implementation_->board_->has_left(peer); }
std::shared_ptr<const void> Fabric::wait_memory() const {
  using All = std::vector<std::shared_ptr<const void>>;
  return std::make_shared<const All>(All{implementation_->board_, implementation_->peer_mapping_.mapped(), network()});
}
const std::shared_ptr<OwnMemory>& Fabric::own_memory() const { return implementation_->own_memory_; }
const std::shared_ptr<StreamPool>& Fabric::streams() const { return implementation_->streams_; }
void Fabric::set_ahead(const Ahead& ahead) { implementation_->ahead_ = ahead; }
void Fabric::set_look_aside(std::function<void(FaultReport&)> look) {
  implementation_->set_look_aside(std::move(look));
}
StreamTracker& Fabric::uses() const { return implementation_->uses_; }
std::shared_ptr<Watchdog> Fabric::watch() const { return implementation_->watch_; }
CopyThread& Fabric::copies() const { return *implementation_->copies_; }
PeerMappingStatistics Fabric::reach_statistics() const { return implementation_->peer_mapping_.statistics(); }
std::optional<std::uint64_t> Fabric::attach(const void* address, int peer) {
  return implementation_->or_story([&] { return implementation_->peer_mapping_.attach(address, peer); });
}
std::optional<std::uint64_t> Fabric::attach_for_good(const void* address, int peer) {
  return implementation_->or_story([&] { return implementation_->peer_mapping_.attach_for_good(address, peer); });
}
std::string Fabric::attach_story() const { return implementation_->peer_mapping_.attach_story(); }
void Fabric::abort(const std::string& reason, Cause cause, Logged logged) {
  implementation_->note_reported();  // the program itself says so
  implementation_->abort("aborted: " + reason, cause, logged);
  implementation_->end_network();
}
void Fabric::leave() { implementation_->leave(); }
bool Fabric::leaving() const { return implementation_->leaving(); }
void Fabric::report_timeout(const std::string& what) { implementation_->report_timeout(what); }
void Fabric::check() const { implementation_->check(); }
void Fabric::note_timeout_reported() const { implementation_->is_late_.store(false, std::memory_order_relaxed); }
void Fabric::check_unreported() const { implementation_->check_unreported(); }
void Fabric::check_waited() const { implementation_->check_waited(); }
void Fabric::check_waited(Status ended) const { implementation_->check_waited(ended); }
std::optional<Failure> Fabric::failure() const {
  auto failure = implementation_->failure();
  if (failure) implementation_->note_reported();
  return failure;
}
std::optional<Failure> Fabric::settled_failure(const std::string& reported) const {
  implementation_->note_reported();
  return implementation_->settled_failure(reported);
}
void Fabric::name_plan(std::uint64_t number, const std::string& name, std::vector<int> tags) {
  implementation_->fault_log_.name_plan(number, name, std::move(tags));
}
std::vector<FaultReport> Fabric::take_faults() { return implementation_->take_faults(); }
std::optional<FaultReport> Fabric::reported(const FaultReport& fault) { return implementation_->reported(fault); }
int Fabric::block_limit() const { return implementation_->block_limit_; }
bool Fabric::whole_lines() const { return implementation_->whole_lines_; }
bool Fabric::crowded() const { return implementation_->crowded_; }
std::size_t Fabric::device_bytes() const { return *implementation_->device_bytes_; }

}  // namespace onstream
