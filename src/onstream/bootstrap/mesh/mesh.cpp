#include "onstream/bootstrap/mesh/mesh.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/base/quiet_thread.hpp"
#include "onstream/bootstrap/mesh/mesh_connect.hpp"
#include "onstream/bootstrap/mesh/mesh_ledger.hpp"
#include "onstream/bootstrap/mesh/mesh_link.hpp"
#include "onstream/bootstrap/mesh/mesh_pulse.hpp"
#include "onstream/bootstrap/socket.hpp"

namespace onstream {
namespace {

using PeerGone = MeshLedger::PeerGone;

constexpr int kTickMs = 50;
constexpr double kGoodbyeLimitS = 1.0;

// 1 and 2 are mesh_connect's.
enum FrameKind : std::uint8_t {
  request_kind = 3,  // {id, topic, payload}
  notify_kind,       // {topic, payload}
  answer_kind,       // {id, payload}
  failure_kind,      // {id, error}
  gather_kind,       // {topic, ordinal, value}
  goodbye_kind,      // {}
  pulse_kind,        // {}, between hosts, by a rank that has nothing else to send
  given_up_kind,     // {}, to a peer that was silent for too long, if it can be reached at all
};

}  // namespace

class Mesh::Implementation {
 public:
  Implementation(const Launch& launch, Store& store, Deadline deadline, const MeshOptions& options)
      : rank_(launch.rank),
        pulse_times_(options.network_timeout_s),
        waker_(make_waker()),
        ledger_(launch.rank, launch.size),
        peers_(static_cast<std::size_t>(launch.size)) {
    if (launch.size == 1) {
      peers_[0].host_name = options.host ? options.host->name : this_host().name;
      return;
    }
    std::vector<ConnectedPeer> connected = connect_mesh(launch, store, options, deadline);
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      PeerConnection& peer = peers_[i];
      peer.link = std::move(connected[i].link);
      peer.process = std::move(connected[i].process);
      peer.host_name = std::move(connected[i].host_name);
      peer.same_host = connected[i].same_host;
      peer.host = connected[i].host;
      // Its pulse begins with its start(), which the others wait for as long as for its connection.
      peer.heard_ns = static_cast<std::uint64_t>(deadline.left_s() * 1e9);
      ledger_.set_process(static_cast<int>(i), connected[i].pid, peer.same_host ? "" : peer.host_name);
      several_hosts_ = several_hosts_ || !peer.same_host;
    }
  }

  ~Implementation() {
    pulse_.reset();
    leaving_ = true;  // before the first goodbye: a peer may hang up as soon as it has read it
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_) enqueue(peer, wire::encode(goodbye_kind, ""), Fd());
    }
    stopping_ = true;  // only now: the thread's last turn writes out every goodbye
    wake(waker_);
    if (thread_.joinable())
      thread_.join();
    else if (size() > 1)
      say_goodbye();
    ledger_.close();
  }

  void on(std::string topic, Handler handler) {
    require_not_started("on");
    handlers_.insert_or_assign(std::move(topic), std::move(handler));
  }
  void on_death(OnDeath function) {
    require_not_started("on_death");
    on_death_ = std::move(function);
  }
  void on_leave(OnDeath function) {
    require_not_started("on_leave");
    on_leave_ = std::move(function);
  }
  void on_tick(std::function<void()> function) {
    require_not_started("on_tick");
    on_tick_ = std::move(function);
  }

  void on_pulse(std::function<bool()> function) {
    require_not_started("on_pulse");
    on_pulse_ = std::move(function);
  }

  void start() {
    require_not_started("start");
    started_ = true;
    if (size() == 1 && !on_tick_) return;
    thread_ = quiet_thread([this] { serve(); });
    if (several_hosts_) pulse_ = std::make_unique<PulseThread>(pulse_times_.period_s, [this] { send_pulses(); });
  }

  std::string request(int peer, std::string_view topic, std::string_view payload, Fd fd, Deadline deadline);
  void notify(int peer, std::string_view topic, std::string_view payload);
  std::vector<std::string> all_gather(std::string_view topic, std::string_view mine, Deadline deadline);

  void fail_all(const std::string& reason) { ledger_.fail_all(reason); }

  bool alive(int peer) const {
    require_rank(peer);
    return ledger_.alive(peer);
  }

  int pid(int peer) const {
    require_rank(peer);
    return peer == rank_ ? static_cast<int>(::getpid()) : ledger_.pid(peer);
  }

  bool same_host(int peer) const {
    require_rank(peer);
    return peers_[static_cast<std::size_t>(peer)].same_host;
  }

  int host_of(int peer) const {
    require_rank(peer);
    return peers_[static_cast<std::size_t>(peer)].host;
  }

  const std::string& host_name(int peer) const {
    require_rank(peer);
    return peers_[static_cast<std::size_t>(peer)].host_name;
  }

 private:
  struct PeerConnection {
    MeshLink link;  // of the mesh's thread, as `process`; that of the pulse may write under write_mutex_
    Fd process;
    std::uint64_t heard_ns = 0;  // of the mesh's thread: when something came last, by clock_; or later
    bool same_host = true;       // fixed, as host and host_name
    int host = 0;
    std::string host_name;
    std::vector<std::pair<std::string, Fd>> queued;  // guarded by outbox_mutex_
  };

  int size() const { return ledger_.size(); }

  void require_not_started(const char* what) const {
    require(!started_, "Mesh::", what, " must come before, and only before, start()");
  }
  void require_rank(int peer) const {
    require(peer >= 0 && peer < size(), "peer ", peer, " is not a rank of this world of ", size());
  }
  void require_other(int peer, std::string_view topic) const {
    require_rank(peer);
    require(peer != rank_, "rank ", rank_, " sends '", topic, "' to itself");
  }
  void require_may_block(std::string_view topic) const {
    require(started_, "'", topic, "' comes before Mesh::start()");
    require(own_thread_.load() != std::this_thread::get_id(), "'", topic,
            "' blocks, so it must not be called from a handler in the mesh's own thread");
  }

  void enqueue(int peer, std::string frame, Fd fd);

  // The pulse's own thread.
  void send_pulses();

  // The mesh's own thread.
  void serve();
  void write_all();
  struct PollSlot {
    int peer;
    std::size_t link;
    std::optional<std::size_t> process;
  };
  std::vector<PollSlot> poll_slots(std::vector<pollfd>& polled);
  void exchange(int timeout_ms);
  void read_from(int peer, bool process_ended);
  void hear_all(int peer);
  void hear(int peer, MeshLink::ReceivedFrame incoming);
  void handle_request(int peer, wire::Unpacker& body, MeshLink::ReceivedFrame& incoming);
  void handle_notify(int peer, wire::Unpacker& body);
  std::string handle(int peer, std::string_view topic, std::string_view payload, MeshLink::ReceivedFrame& incoming);
  void finish_call(int peer, wire::Unpacker& body, bool failed);
  void take_gathered(int peer, wire::Unpacker& body);
  void lose(int peer, PeerGone how, const std::string& why);
  void look_for_silence();
  void give_up(int peer);
  void tick_if_due();
  void end_streams();
  void say_goodbye();

  const int rank_;
  const PulseTimes pulse_times_;
  bool several_hosts_ = false;
  Fd waker_;
  std::atomic<std::uint64_t> last_call_{0};
  std::thread thread_;
  std::atomic<std::thread::id> own_thread_{};  // known to handlers before start() returned
  std::atomic<bool> started_{false};
  std::atomic<bool> leaving_{false};
  std::atomic<bool> stopping_{false};

  // Fixed by start().
  std::map<std::string, Handler, std::less<>> handlers_;
  OnDeath on_death_;
  OnDeath on_leave_;
  std::function<void()> on_tick_;
  std::function<bool()> on_pulse_;

  // Of the mesh's thread.
  std::uint64_t next_tick_ns_ = 0;
  ListeningClock clock_;

  MeshLedger ledger_;
  std::mutex outbox_mutex_;
  std::mutex write_mutex_;  // for writing to a link and closing it; never held while something waits
  std::vector<PeerConnection> peers_;
  std::unique_ptr<PulseThread> pulse_;
};

// --- any thread ---

void Mesh::Implementation::enqueue(int peer, std::string frame, Fd fd) {
  {
    const std::lock_guard lock(outbox_mutex_);
    peers_[static_cast<std::size_t>(peer)].queued.emplace_back(std::move(frame), std::move(fd));
  }
  wake(waker_);
}

std::string Mesh::Implementation::request(int peer, std::string_view topic, std::string_view payload, Fd fd,
                                          Deadline deadline) {
  require_other(peer, topic);
  require_may_block(topic);
  require(!fd.valid() || same_host(peer), "'", topic, "' carries a file descriptor, which cannot travel to ",
          ledger_.name_of(peer));
  const std::uint64_t id = ++last_call_;
  const std::uint8_t flags = fd.valid() ? wire::kCarriesFd : 0;
  std::string frame = wire::encode(request_kind, wire::Packer().u64(id).text(topic).text(payload).body(), flags);
  ledger_.expect(id, peer, topic);
  enqueue(peer, std::move(frame), std::move(fd));
  return ledger_.await_answer(id, deadline);
}

void Mesh::Implementation::notify(int peer, std::string_view topic, std::string_view payload) {
  require_other(peer, topic);
  enqueue(peer, wire::encode(notify_kind, wire::Packer().text(topic).text(payload).body()), Fd());
}

std::vector<std::string> Mesh::Implementation::all_gather(std::string_view topic, std::string_view mine,
                                                          Deadline deadline) {
  if (size() == 1) return {std::string(mine)};
  require_may_block(topic);
  require(topic.size() + mine.size() < wire::kMaxBodyBytes / 2, "'", topic, "' gathers ", mine.size(),
          " B, the limit is ", wire::kMaxBodyBytes / 2, " B");  // before this rank counts the call
  const std::uint64_t ordinal = ledger_.join(topic, mine);
  const std::string frame = wire::encode(gather_kind, wire::Packer().text(topic).u64(ordinal).text(mine).body());
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank_) enqueue(peer, frame, Fd());
  return ledger_.await_gather(topic, ordinal, deadline);
}

// --- the mesh's own thread ---

void Mesh::Implementation::serve() {
  own_thread_ = std::this_thread::get_id();
  // Frames may have come together with the last one of the handshake.
  for (int peer = 0; peer < size(); ++peer) hear_all(peer);
  while (!stopping_) {
    tick_if_due();
    const std::uint64_t now = now_ns();
    const int timeout_ms = next_tick_ns_ > now ? static_cast<int>((next_tick_ns_ - now) / 1'000'000 + 1) : 0;
    exchange(timeout_ms);
  }
  say_goodbye();
}

void Mesh::Implementation::tick_if_due() {
  const std::uint64_t now = now_ns();
  if (now < next_tick_ns_) return;
  next_tick_ns_ = now + std::uint64_t{kTickMs} * 1'000'000;
  if (on_tick_) on_tick_();
}

// Moves the frames that callers enqueued to the links and writes as much as the kernel takes.
void Mesh::Implementation::write_all() {
  for (PeerConnection& peer : peers_) {
    std::vector<std::pair<std::string, Fd>> queued;
    {
      const std::lock_guard lock(outbox_mutex_);
      queued.swap(peer.queued);
    }
    const std::lock_guard lock(write_mutex_);
    // Frames enqueued for a peer that is gone are dropped.
    for (auto& [frame, fd] : queued)
      if (peer.link.open()) peer.link.enqueue(std::move(frame), std::move(fd));
    // A failed write is not yet a death: the goodbye may lie unread. The next read decides.
    peer.link.write_some();
  }
}

// Adds the descriptors of each connected peer for poll().
std::vector<Mesh::Implementation::PollSlot> Mesh::Implementation::poll_slots(std::vector<pollfd>& polled) {
  const std::lock_guard lock(write_mutex_);
  std::vector<PollSlot> slots;
  for (int peer = 0; peer < size(); ++peer) {
    const PeerConnection& one = peers_[static_cast<std::size_t>(peer)];
    if (!one.link.open()) continue;
    PollSlot slot{peer, polled.size(), std::nullopt};
    const int wants = one.link.has_to_write() ? POLLIN | POLLOUT : POLLIN;
    polled.push_back({one.link.socket().get(), static_cast<short>(wants), 0});
    if (one.process.valid()) {
      slot.process = polled.size();
      polled.push_back({one.process.get(), POLLIN, 0});
    }
    slots.push_back(slot);
  }
  return slots;
}

// One turn: writes, waits for anything to happen, reads.
void Mesh::Implementation::exchange(int timeout_ms) {
  write_all();
  std::vector<pollfd> polled = {{waker_.get(), POLLIN, 0}};
  const std::vector<PollSlot> slots = poll_slots(polled);
  poll_some(polled, timeout_ms);
  if (polled[0].revents != 0) drain(waker_);
  for (const PollSlot& slot : slots) {
    const bool ended = slot.process && polled[*slot.process].revents != 0;
    if (ended || (polled[slot.link].revents & ~POLLOUT) != 0) read_from(slot.peer, ended);
  }
  if (several_hosts_) look_for_silence();
}

void Mesh::Implementation::read_from(int peer, bool process_ended) {
  PeerConnection& one = peers_[static_cast<std::size_t>(peer)];
  Received received = one.link.read_some();
  if (received == Received::some) one.heard_ns = clock_.listened_ns();
  // A child of the dead process may hold the other end open, so the end of the stream may never come.
  while (process_ended && received == Received::some) received = one.link.read_some();
  hear_all(peer);
  if (!one.link.open()) return;
  if (received == Received::end)
    lose(peer, PeerGone::died, concat(ledger_.name_of(peer), " died: its connection closed"));
  else if (process_ended)
    lose(peer, PeerGone::died, concat(ledger_.name_of(peer), " died: its process ended"));
}

void Mesh::Implementation::hear_all(int peer) {
  PeerConnection& one = peers_[static_cast<std::size_t>(peer)];
  try {
    while (one.link.open()) {
      std::optional<MeshLink::ReceivedFrame> incoming = one.link.next();
      if (!incoming) return;
      hear(peer, std::move(*incoming));
    }
  } catch (const Error& error) {
    lose(peer, PeerGone::died, concat(ledger_.name_of(peer), " sent malformed bytes: ", error.what()));
  }
}

void Mesh::Implementation::hear(int peer, MeshLink::ReceivedFrame incoming) {
  wire::Unpacker body(incoming.frame.body);
  switch (incoming.frame.kind) {
    case request_kind: return handle_request(peer, body, incoming);
    case notify_kind: return handle_notify(peer, body);
    case answer_kind: return finish_call(peer, body, false);
    case failure_kind: return finish_call(peer, body, true);
    case gather_kind: return take_gathered(peer, body);
    case pulse_kind: return;
    case given_up_kind:
      return lose(peer, PeerGone::died,
                  concat(ledger_.name_of(peer), " gave this rank up: nothing had come from here for ",
                         pulse_times_.limit_s, " s"));
    case goodbye_kind: return lose(peer, PeerGone::left, concat(ledger_.name_of(peer), " left the world"));
    default: fail(ErrorCode::invalid_argument, "unknown kind ", static_cast<int>(incoming.frame.kind));
  }
}

std::string Mesh::Implementation::handle(int peer, std::string_view topic, std::string_view payload,
                                         MeshLink::ReceivedFrame& incoming) {
  const auto handler = handlers_.find(topic);
  if (handler == handlers_.end())
    fail(ErrorCode::unsupported, "rank ", rank_, " has no handler for '", topic, "'; do all ranks run the same build?");
  if ((incoming.frame.flags & wire::kCarriesFd) != 0 && !incoming.fd.valid())
    fail(ErrorCode::system, "rank ", rank_, " could not take the file descriptor of '", topic,
         "': its limit of open files (ulimit -n) is reached");
  return handler->second(peer, std::string(payload), std::move(incoming.fd));
}

void Mesh::Implementation::handle_request(int peer, wire::Unpacker& body, MeshLink::ReceivedFrame& incoming) {
  const std::uint64_t id = body.u64();
  const std::string_view topic = body.text();
  const std::string_view payload = body.text();
  body.end();
  if (stopping_) return;  // objects that handlers use may be gone already; the goodbye answers
  std::string frame;
  const auto fail_with = [&](ErrorCode code, const char* text) {
    wire::Packer failure;
    failure.u64(id);
    wire::pack_error(failure, code, text);
    frame = wire::encode(failure_kind, failure.body());
  };
  try {
    frame = wire::encode(answer_kind, wire::Packer().u64(id).text(handle(peer, topic, payload, incoming)).body());
  } catch (const Error& error) {
    fail_with(error.code(), error.what());
  } catch (const std::exception& error) {
    fail_with(ErrorCode::system, error.what());
  }
  enqueue(peer, std::move(frame), Fd());
}

void Mesh::Implementation::handle_notify(int peer, wire::Unpacker& body) {
  const std::string_view topic = body.text();
  const std::string_view payload = body.text();
  body.end();
  if (stopping_) return;
  MeshLink::ReceivedFrame no_fd;
  try {
    handle(peer, topic, payload, no_fd);
  } catch (const std::exception& error) {
    // Nobody waits for an answer, so this is the only place that can tell.
    log(LogLevel::error, "'", topic, "' from rank ", peer, " failed: ", error.what());
  }
}

void Mesh::Implementation::finish_call(int peer, wire::Unpacker& body, bool failed) {
  const std::uint64_t id = body.u64();
  std::optional<Error> error;
  std::string answer;
  if (failed) {
    error.emplace(wire::unpack_error(body));
  } else {
    answer = body.text();
    body.end();
  }
  ledger_.answered(id, peer, std::move(answer), std::move(error));
}

void Mesh::Implementation::take_gathered(int peer, wire::Unpacker& body) {
  std::string topic(body.text());
  const std::uint64_t ordinal = body.u64();
  std::string value(body.text());
  body.end();
  ledger_.joined(peer, std::move(topic), ordinal, std::move(value));
}

void Mesh::Implementation::lose(int peer, PeerGone how, const std::string& why) {
  {
    const std::lock_guard lock(write_mutex_);
    peers_[static_cast<std::size_t>(peer)].link.close();
  }
  if (!ledger_.alive(peer)) return;
  // First, so that a thread that the ledger wakes finds the world failed.
  if (how == PeerGone::died && on_death_ && !leaving_) on_death_(peer, why);
  (void)ledger_.lose(peer, how, why);
  if (how == PeerGone::left && on_leave_ && !leaving_) on_leave_(peer, why);
}

void Mesh::Implementation::look_for_silence() {
  clock_.turn();
  const auto limit_ns = static_cast<std::uint64_t>(pulse_times_.limit_s * 1e9);
  for (int peer = 0; peer < size(); ++peer) {
    const PeerConnection& one = peers_[static_cast<std::size_t>(peer)];
    if (!one.same_host && one.link.open() && clock_.listened_ns() > one.heard_ns + limit_ns) give_up(peer);
  }
}

void Mesh::Implementation::give_up(int peer) {
  {
    const std::lock_guard lock(write_mutex_);
    MeshLink& link = peers_[static_cast<std::size_t>(peer)].link;
    link.enqueue(wire::encode(given_up_kind, ""), Fd());  // for a process that goes on after it stood still
    link.write_some();
  }
  lose(peer, PeerGone::died,
       concat(ledger_.name_of(peer), " has not answered for ", pulse_times_.limit_s,
              " s: its host or its process stands still, or the network between is cut"));
}

// --- the pulse's own thread ---

void Mesh::Implementation::send_pulses() {
  if (on_pulse_ && !on_pulse_()) return;
  const std::uint64_t now = now_ns();
  const auto idle_ns = static_cast<std::uint64_t>(pulse_times_.period_s * 0.75 * 1e9);  // it looks four times a period
  const std::string frame = wire::encode(pulse_kind, "");
  const std::lock_guard lock(write_mutex_);
  for (PeerConnection& peer : peers_) {
    if (peer.same_host || !peer.link.open()) continue;
    if (!peer.link.has_to_write() && peer.link.written_ns() + idle_ns < now) peer.link.enqueue(frame, Fd());
    peer.link.write_some();
  }
}

// --- the end ---

// A TCP connection that is closed with something unread is reset, and the goodbye on its way would be lost: so the
// peers close first, when they have read it.
void Mesh::Implementation::end_streams() {
  for (const PeerConnection& one : peers_)
    if (!one.same_host && one.link.open()) end_writing(one.link.socket());
}

// Writes out the remaining frames, the goodbyes last, while still reading, so that two sides with full sockets do not
// wait for each other.
void Mesh::Implementation::say_goodbye() {
  const Deadline deadline(kGoodbyeLimitS);
  const auto exchange_while = [&](const auto& needed) {
    while (std::ranges::any_of(peers_, needed) && !deadline.passed()) exchange(milliseconds_left(deadline, kTickMs));
  };
  write_all();
  exchange_while([](const PeerConnection& one) { return one.link.open() && one.link.has_to_write(); });
  if (!several_hosts_) return;
  end_streams();
  exchange_while([](const PeerConnection& one) { return one.link.open() && !one.same_host; });
}

Mesh::Mesh(const Launch& launch, Store& store, Deadline deadline, const MeshOptions& options)
    : implementation_(std::make_unique<Implementation>(launch, store, deadline, options)) {}
Mesh::~Mesh() = default;

void Mesh::on(std::string topic, Handler handler) { implementation_->on(std::move(topic), std::move(handler)); }
void Mesh::on_death(OnDeath function) { implementation_->on_death(std::move(function)); }
void Mesh::on_leave(OnDeath function) { implementation_->on_leave(std::move(function)); }
void Mesh::on_tick(std::function<void()> function) { implementation_->on_tick(std::move(function)); }
void Mesh::on_pulse(std::function<bool()> function) { implementation_->on_pulse(std::move(function)); }
void Mesh::start() { implementation_->start(); }

std::string Mesh::request(int peer, std::string_view topic, std::string_view payload, Fd fd, Deadline deadline) {
  return implementation_->request(peer, topic, payload, std::move(fd), deadline);
}
void Mesh::notify(int peer, std::string_view topic, std::string_view payload) {
  implementation_->notify(peer, topic, payload);
}
std::vector<std::string> Mesh::all_gather(std::string_view topic, std::string_view mine, Deadline deadline) {
  return implementation_->all_gather(topic, mine, deadline);
}
void Mesh::fail_all(const std::string& reason) { implementation_->fail_all(reason); }
bool Mesh::alive(int peer) const { return implementation_->alive(peer); }
int Mesh::pid(int peer) const { return implementation_->pid(peer); }
int Mesh::host_of(int peer) const { return implementation_->host_of(peer); }
bool Mesh::same_host(int peer) const { return implementation_->same_host(peer); }
const std::string& Mesh::host_name(int peer) const { return implementation_->host_name(peer); }

}  // namespace onstream
