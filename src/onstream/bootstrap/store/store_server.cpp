#include "onstream/bootstrap/store/store_server.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "onstream/base/error.hpp"
#include "onstream/base/quiet_thread.hpp"

namespace onstream {
namespace {

using store_protocol::MessageKind;

constexpr std::size_t kMaxStrangers = 256;
constexpr double kDrainLimitS = 2.0;
constexpr double kTakenLimitS = 3.0;  // how long a previous job's server may take to leave the address

struct ServerRegistry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<StoreServer>> servers;
};

// Never destroyed: the serving threads may outlive main().
ServerRegistry& registry() {
  static ServerRegistry* const instance = new ServerRegistry;
  return *instance;
}

Fd listen_until(Endpoint& endpoint, ListenScope scope, Deadline deadline) {
  const Deadline patience(std::min(kTakenLimitS, deadline.left_s()));
  while (true) {
    Fd listener = listen_at(endpoint, scope);
    if (listener.valid()) return listener;
    if (patience.passed())
      fail(ErrorCode::system, "rank 0 cannot listen at ", endpoint.describe(),
           ": another process does; end it, or set ONSTREAM_PORT to a free port for all ranks");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

std::shared_ptr<StoreServer> StoreServer::acquire(const Launch& launch, Deadline deadline) {
  ServerRegistry& all = registry();
  const std::lock_guard lock(all.mutex);
  Endpoint endpoint{launch.address, launch.port};
  if (const auto found = all.servers.find(endpoint.describe()); found != all.servers.end()) {
    StoreServer& server = *found->second;
    require(equal_in_constant_time(server.secret_, launch.secret), "this process already serves another job at ",
            endpoint.describe(), " with another secret; give each job its own port");
    renew_credentials(server.listener_);
    ++server.users_;
    (void)server.refused_secret();  // of another meeting
    return found->second;
  }
  const ListenScope scope = launch.local_size == launch.size ? ListenScope::this_host : ListenScope::any_host;
  Fd listener = listen_until(endpoint, scope, deadline);
  auto server = std::make_shared<StoreServer>(endpoint, launch.secret, std::move(listener));
  all.servers.emplace(endpoint.describe(), server);
  quiet_thread([server] { server->serve(); }).detach();
  return server;
}

StoreServer::StoreServer(Endpoint endpoint, std::string secret, Fd listener)
    : endpoint_(std::move(endpoint)),
      secret_(std::move(secret)),
      listener_(std::move(listener)),
      waker_(make_waker()) {}

std::string StoreServer::refused_secret() {
  const std::int64_t rank = refused_rank_.exchange(-1, std::memory_order_relaxed);
  return rank < 0 ? "" : concat("a process that says it is rank ", rank, " came with another secret");
}

void StoreServer::release() {
  {
    std::unique_lock lock(mutex_);
    const std::uint64_t wanted = ++drain_wanted_;
    wake(waker_);
    drained_changed_.wait_for(lock, std::chrono::duration<double>(kDrainLimitS),
                              [&] { return drain_reached_ >= wanted; });
  }
  const std::lock_guard lock(registry().mutex);
  --users_;
  wake(waker_);
}

bool StoreServer::finished() {
  const bool has_clients = std::any_of(clients_.begin(), clients_.end(), [](const Client& c) { return c.proved; });
  if (has_clients) return false;
  const std::lock_guard lock(registry().mutex);
  if (users_ > 0) return false;
  listener_.reset();  // within the lock: a thread that finds no server here can bind the address
  registry().servers.erase(endpoint_.describe());
  return true;
}

void StoreServer::serve() {
  constexpr int kHousekeepingMs = 1000;
  while (!finished()) {
    const bool deaf = !deaf_until_.passed();
    std::vector<pollfd> polled = {{deaf ? -1 : listener_.get(), POLLIN, 0}, {waker_.get(), POLLIN, 0}};
    std::vector<Client*> owners;
    for (Client& client : clients_) {
      const int wants = client.out.empty() ? POLLIN : POLLIN | POLLOUT;
      polled.push_back({client.socket.get(), static_cast<short>(wants), 0});
      owners.push_back(&client);
    }
    poll_some(polled, deaf ? milliseconds_left(deaf_until_, kHousekeepingMs) : kHousekeepingMs);

    if (polled[1].revents != 0) drain(waker_);
    for (std::size_t i = 0; i < owners.size(); ++i) attend(*owners[i], polled[i + 2].revents);
    for (Client& client : clients_) flush(client);
    report_drained();
    std::erase_if(clients_, [](const Client& client) { return !client.socket.valid(); });
    if (polled[0].revents != 0) accept_strangers();
  }
}

void StoreServer::accept_strangers() {
  while (true) {
    Fd socket = accept_one(listener_);
    if (!socket.valid()) {
      // A connection that cannot be taken stays, and poll() would tell of it again at once.
      constexpr double kDeafS = 0.05;
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) deaf_until_ = Deadline(kDeafS);
      return;
    }
    if (endpoint_.is_unix() && credentials_of(socket).uid != ::geteuid()) continue;
    const auto stranger = [](const Client& client) { return !client.proved; };
    if (static_cast<std::size_t>(std::count_if(clients_.begin(), clients_.end(), stranger)) >= kMaxStrangers)
      clients_.erase(std::find_if(clients_.begin(), clients_.end(), stranger));  // the oldest
    Client client;
    client.socket = std::move(socket);
    client.nonce = random_bytes(store_protocol::kNonceBytes);
    client.out = wire::encode(MessageKind::challenge, wire::Packer().text(client.nonce).body());
    clients_.push_back(std::move(client));
    flush(clients_.back());
  }
}

void StoreServer::attend(Client& client, short events) {
  if (!client.socket.valid()) return;
  if (!client.proved && client.proof_deadline.passed()) return client.socket.reset();
  if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) return;
  std::string bytes;
  const Received received = receive_some(client.socket, bytes);
  try {
    client.reader.feed(bytes);
    while (client.socket.valid() && !client.closing) {
      const std::optional<wire::Frame> frame = client.reader.next();
      if (!frame) break;
      hear(client, *frame);
    }
  } catch (const Error&) {
    // Malformed, from a stranger or from a rank whose memory went wrong: dropped without an answer, as the header says.
    return close(client, &Meeting::die);
  }
  if (received == Received::end) close(client, &Meeting::die);
}

void StoreServer::hear(Client& client, const wire::Frame& frame) {
  if (!client.proved) return welcome(client, frame);
  Meeting& meeting = meetings_.at(client.meeting);
  wire::Unpacker body(frame.body);
  if (frame.kind == MessageKind::bye) return close(client, &Meeting::leave);
  if (frame.kind == MessageKind::set) {
    const std::string_view key = body.text();
    const std::string_view value = body.text();
    body.end();
    return deliver(client.meeting, meeting.set(key, value));
  }
  const std::uint64_t id = body.u64();
  if (frame.kind == MessageKind::cancel) {
    body.end();
    return meeting.cancel(client.rank, id);
  }
  const std::string_view name = body.text();
  if (frame.kind == MessageKind::gather) {
    const std::string_view value = body.text();
    body.end();
    return deliver(client.meeting, meeting.gather(client.rank, id, name, value));
  }
  body.end();
  if (frame.kind == MessageKind::get) return deliver(client.meeting, meeting.get(client.rank, id, name));
  if (frame.kind == MessageKind::missing) return deliver(client.meeting, meeting.missing(client.rank, id, name));
  fail(ErrorCode::invalid_argument, "a store client sent a frame of unknown kind ", static_cast<int>(frame.kind));
}

void StoreServer::welcome(Client& client, const wire::Frame& frame) {
  require(frame.kind == MessageKind::hello, "a connection does not start with hello");
  wire::Unpacker body(frame.body);
  store_protocol::Hello hello;
  hello.client_nonce = body.text();
  hello.generation = body.text();
  hello.process = body.u64();
  hello.rank = body.u32();
  hello.size = body.u32();
  const std::string_view proof = body.text();
  body.end();
  if (!equal_in_constant_time(proof, store_protocol::client_proof(secret_, client.nonce, hello))) {
    refused_rank_.store(hello.rank, std::memory_order_relaxed);
    fail(ErrorCode::invalid_argument, "a connection's proof of the secret is wrong");
  }

  constexpr std::uint32_t kMaxRanks = 1U << 20;
  if (hello.size == 0 || hello.size > kMaxRanks || hello.rank >= hello.size)
    return refuse(client, concat("rank ", hello.rank, " of ", hello.size, " is not possible"));
  const int size = static_cast<int>(hello.size);
  if (claimed_by_another(hello))
    return refuse(client, concat("two processes say that they are rank ", hello.rank, " of ", size,
                                 "; give each process its own rank"));
  const std::uint64_t number = meeting_for(hello);
  Meeting& meeting = meetings_.at(number);
  if (meeting.size() != size)
    return refuse(client, concat("rank ", hello.rank, " says that the job has ", size, " ranks, others said ",
                                 meeting.size(), "; start all ranks with the same size"));
  (void)meeting.enter(static_cast<int>(hello.rank));
  client.proved = true;
  client.meeting = number;
  client.process = hello.process;
  client.rank = static_cast<int>(hello.rank);
  client.reader.allow(wire::kMaxBodyBytes);
  const std::string answer = store_protocol::server_proof(secret_, client.nonce, hello);
  client.out += wire::encode(MessageKind::welcome, wire::Packer().text(answer).body());
}

std::uint64_t StoreServer::meeting_for(const store_protocol::Hello& hello) {
  for (const auto& [number, meeting] : meetings_)
    if (meeting.generation() == hello.generation && meeting.open_to(static_cast<int>(hello.rank))) return number;
  meetings_.emplace(++last_meeting_, Meeting(static_cast<int>(hello.size), hello.generation));
  return last_meeting_;
}

// Each of several worlds of one process has a client here.
bool StoreServer::claimed_by_another(const store_protocol::Hello& hello) const {
  return std::any_of(clients_.begin(), clients_.end(), [&](const Client& client) {
    return client.proved && client.rank == static_cast<int>(hello.rank) && client.process != hello.process &&
           meetings_.at(client.meeting).generation() == hello.generation;
  });
}

void StoreServer::refuse(Client& client, const std::string& why) {
  wire::Packer body;
  body.u64(0);
  wire::pack_error(body, ErrorCode::invalid_argument, why);
  client.out += wire::encode(MessageKind::failed, body.body());
  client.closing = true;
}

void StoreServer::deliver(std::uint64_t meeting, const MeetingAnswers& answers) {
  for (const MeetingAnswer& answer : answers)
    for (Client& client : clients_)
      if (client.proved && client.socket.valid() && client.meeting == meeting && client.rank == answer.rank)
        client.out += answer.frame;
}

void StoreServer::flush(Client& client) {
  if (!client.socket.valid()) return;
  std::size_t begin = 0;
  while (begin < client.out.size()) {
    const ssize_t sent =
        ::send(client.socket.get(), client.out.data() + begin, client.out.size() - begin, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) return close(client, &Meeting::die);
    begin += static_cast<std::size_t>(sent);
  }
  client.out.erase(0, begin);
  if (client.closing && client.out.empty()) client.socket.reset();
}

void StoreServer::close(Client& client, MeetingAnswers (Meeting::*how)(int)) {
  client.socket.reset();
  client.out.clear();
  if (!client.proved) return;
  client.proved = false;
  const auto meeting = meetings_.find(client.meeting);
  deliver(client.meeting, (meeting->second.*how)(client.rank));
  if (meeting->second.over()) meetings_.erase(meeting);
}

void StoreServer::report_drained() {
  for (const Client& client : clients_)
    if (client.proved && client.socket.valid() && !client.out.empty()) return;
  const std::lock_guard lock(mutex_);
  drain_reached_ = drain_wanted_;
  drained_changed_.notify_all();
}

}  // namespace onstream
