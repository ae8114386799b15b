#include "onstream/bootstrap/mesh/mesh.hpp"

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
};

}  // namespace

class Mesh::Implementation {
 public:
  Implementation(const Launch& launch, Store& store, Deadline deadline)
      : rank_(launch.rank),
        waker_(make_waker()),
        ledger_(launch.rank, launch.size),
        peers_(static_cast<std::size_t>(launch.size)) {
    if (launch.size == 1) return;
    std::vector<ConnectedPeer> connected = connect_mesh(launch, store, deadline);
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      peers_[i].link = std::move(connected[i].link);
      peers_[i].process = std::move(connected[i].process);
      ledger_.set_pid(static_cast<int>(i), connected[i].pid);
    }
  }

  ~Implementation() {
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

  void start() {
    require_not_started("start");
    started_ = true;
    if (size() == 1 && !on_tick_) return;
    thread_ = quiet_thread([this] { serve(); });
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

 private:
  struct PeerConnection {
    MeshLink link;  // of the mesh's thread, as `process`
    Fd process;
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

  // The mesh's own thread.
  void serve();
  void write_all();
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
  void tick_if_due();
  void say_goodbye();

  const int rank_;
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

  std::uint64_t next_tick_ns_ = 0;  // of the mesh's thread

  MeshLedger ledger_;
  std::mutex outbox_mutex_;
  std::vector<PeerConnection> peers_;
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
    {
      const std::lock_guard lock(outbox_mutex_);
      // Frames enqueued for a peer that is gone are dropped.
      for (auto& [frame, fd] : peer.queued)
        if (peer.link.open()) peer.link.enqueue(std::move(frame), std::move(fd));
      peer.queued.clear();
    }
    // A failed write is not yet a death: the goodbye may lie unread. The next read decides.
    peer.link.write_some();
  }
}

// One turn: writes, waits for anything to happen, reads.
void Mesh::Implementation::exchange(int timeout_ms) {
  write_all();
  std::vector<pollfd> polled = {{waker_.get(), POLLIN, 0}};
  struct PollSlot {
    int peer;
    std::size_t link;
    std::optional<std::size_t> process;
  };
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
  poll_some(polled, timeout_ms);
  if (polled[0].revents != 0) drain(waker_);
  for (const PollSlot& slot : slots) {
    const bool ended = slot.process && polled[*slot.process].revents != 0;
    if (ended || (polled[slot.link].revents & ~POLLOUT) != 0) read_from(slot.peer, ended);
  }
}

void Mesh::Implementation::read_from(int peer, bool process_ended) {
  PeerConnection& one = peers_[static_cast<std::size_t>(peer)];
  Received received = one.link.read_some();
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
  peers_[static_cast<std::size_t>(peer)].link.close();
  if (!ledger_.alive(peer)) return;
  // First, so that a thread that the ledger wakes finds the world failed.
  if (how == PeerGone::died && on_death_ && !leaving_) on_death_(peer, why);
  (void)ledger_.lose(peer, how, why);
  if (how == PeerGone::left && on_leave_ && !leaving_) on_leave_(peer, why);
}

// Writes out the remaining frames, the goodbyes last, while still reading, so that two sides with full sockets do not
// wait for each other.
void Mesh::Implementation::say_goodbye() {
  const Deadline deadline(kGoodbyeLimitS);
  const auto something_left = [&] {
    for (const PeerConnection& one : peers_)
      if (one.link.open() && one.link.has_to_write()) return true;
    return false;
  };
  write_all();
  while (something_left() && !deadline.passed()) exchange(milliseconds_left(deadline, kTickMs));
}

Mesh::Mesh(const Launch& launch, Store& store, Deadline deadline)
    : implementation_(std::make_unique<Implementation>(launch, store, deadline)) {}
Mesh::~Mesh() = default;

void Mesh::on(std::string topic, Handler handler) { implementation_->on(std::move(topic), std::move(handler)); }
void Mesh::on_death(OnDeath function) { implementation_->on_death(std::move(function)); }
void Mesh::on_leave(OnDeath function) { implementation_->on_leave(std::move(function)); }
void Mesh::on_tick(std::function<void()> function) { implementation_->on_tick(std::move(function)); }
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

}  // namespace onstream
