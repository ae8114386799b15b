#include "onstream/bootstrap/store/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/bootstrap/socket.hpp"
#include "onstream/bootstrap/store/store_protocol.hpp"
#include "onstream/bootstrap/store/store_server.hpp"
#include "onstream/device/lifetime/process_id.hpp"

namespace onstream {
namespace {

using store_protocol::MessageKind;

constexpr const char* kSecretRefused = "the server did not accept this rank's secret";
constexpr const char* kSameSecret = "; all ranks must be started with the same ONSTREAM_SECRET";
constexpr double kSendLimitS = 60.0;  // the server always reads; only a stopped process takes longer

std::string list_of(const std::vector<std::uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += concat(i == 0 ? "" : ", ", ranks[i]);
  return text;
}

}  // namespace

class Store::Implementation {
 public:
  Implementation(const Launch& launch, Deadline deadline) : launch_(launch), endpoint_{launch.address, launch.port} {
    require(launch.size >= 1 && launch.rank >= 0 && launch.rank < launch.size, "rank ", launch.rank, " of ",
            launch.size, " is not possible");
    if (launch.size == 1) return;
    require(launch.rank == 0 || endpoint_.is_unix() || launch.port > 0, "rank ", launch.rank,
            " needs the port where the ranks meet; set ONSTREAM_PORT to the same port for all ranks");
    if (launch.rank == 0) {
      server_ = StoreServer::acquire(launch, deadline);
      endpoint_.port = server_->port();
    }
    try {
      join(deadline);
    } catch (...) {
      if (server_) server_->release();
      throw;
    }
  }

  ~Implementation() {
    if (launch_.size == 1) return;
    try {
      send_all(socket_, wire::encode(MessageKind::bye, ""), Deadline(1.0));
    } catch (const Error&) {
      // The server is gone: there is nobody to say goodbye to.
    }
    socket_.reset();
    if (server_) server_->release();
  }

  int port() const { return endpoint_.port; }
  std::string local_number() const { return socket_.valid() ? onstream::local_number(socket_) : ""; }

  void set(std::string_view key, std::string_view value) {
    if (launch_.size == 1) {
      const std::lock_guard lock(mutex_);
      alone_.emplace(key, value);
      alone_changed_.notify_all();
      return;
    }
    const std::lock_guard lock(mutex_);
    send(MessageKind::set, wire::Packer().text(key).text(value));
  }

  std::string get(std::string_view key, Deadline deadline) {
    std::unique_lock lock(mutex_);
    if (launch_.size == 1) {
      const auto found = [&] { return alone_.contains(key); };
      if (wait_by(deadline, alone_changed_, lock, found)) return alone_.find(key)->second;
    } else {
      const std::uint64_t id = ++last_id_;
      send(MessageKind::get, wire::Packer().u64(id).text(key));
      const std::optional<wire::Frame> answer = await(id, MessageKind::value, deadline);
      if (answer) return std::string(after_id(*answer).text());
      send(MessageKind::cancel, wire::Packer().u64(id));
    }
    fail(ErrorCode::timeout, "key '", key, "' was not set within ", deadline.limit_s(), " s at ", endpoint_.describe());
  }

  void tell_failure(const std::string& what) {
    try {
      set(store_protocol::kFailure, concat("rank ", launch_.rank, " (pid ", ::getpid(), "): ", what));
    } catch (const Error&) {
      // Rank 0 is gone: nobody can be told, and all see that.
    }
  }

  std::string failure_told() {
    constexpr double kPatienceS = 1.5;  // a rank's end may be seen before its last words are
    try {
      return get(store_protocol::kFailure, Deadline(kPatienceS));
    } catch (const Error&) {
      return "";
    }
  }

  std::vector<std::string> all_gather(std::string_view topic, std::string_view mine, Deadline deadline) {
    if (launch_.size == 1) return {std::string(mine)};
    const std::lock_guard lock(mutex_);
    const std::uint64_t id = ++last_id_;
    send(MessageKind::gather, wire::Packer().u64(id).text(topic).text(mine));
    const std::optional<wire::Frame> answer = await(id, MessageKind::gathered, deadline);
    if (!answer) {
      const std::string absent = absent_from(topic);
      send(MessageKind::cancel, wire::Packer().u64(id));
      const std::string refused = server_ ? server_->refused_secret() : "";
      fail(ErrorCode::timeout, absent, " of ", launch_.size, " did not come to ", topic, " within ", deadline.limit_s(),
           " s (bootstrap_timeout_s) at ", endpoint_.describe(),
           refused.empty() ? "" : concat("; ", refused, kSameSecret),
           "; check that they started and see their own errors. If they have died, the others make their world "
           "from the launch without them (docs/failure.md)");
    }
    wire::Unpacker body = after_id(*answer);
    const std::uint32_t count = body.u32();
    require(count == static_cast<std::uint32_t>(launch_.size), "the store answered for ", count, " ranks");
    std::vector<std::string> values;
    for (std::uint32_t i = 0; i < count; ++i) values.emplace_back(body.text());
    body.end();
    return values;
  }

 private:
  // Tries until a server that knows the secret welcomes us.
  void join(Deadline deadline) {
    std::string why;
    double pause_s = 0.002;
    while (true) {
      reader_ = wire::FrameReader();
      socket_ = connect_once(endpoint_, deadline, why);
      if (socket_.valid() && introduce(deadline, why)) return;
      if (deadline.passed()) {
        fail(ErrorCode::timeout, "rank ", launch_.rank, " of ", launch_.size, " could not reach rank 0 at ",
             endpoint_.describe(), " within ", deadline.limit_s(), " s ", unreached(why));
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(pause_s, deadline.left_s())));
      pause_s = std::min(pause_s * 1.5, 0.05);
    }
  }

  // Why rank 0 was not reached, and advice. The server that refused the secret may be gone by now, as rank 0's deadline
  // is often the same; or it ended just then, which looks the same.
  std::string unreached(const std::string& why) const {
    const char* const check = "; check that rank 0 started there";
    if (!secret_refused_) return concat("(", why, ")", check);
    if (why.empty()) return concat("(", kSecretRefused, ")", kSameSecret);
    return concat("(", kSecretRefused, " or ended, and later: ", why, ")", check, kSameSecret);
  }

  // False, and why, if the other end is not, or not yet, the server of this job.
  bool introduce(Deadline deadline, std::string& why) {
    store_protocol::Hello hello;
    hello.client_nonce = random_bytes(store_protocol::kNonceBytes);
    hello.generation = launch_.generation;
    hello.process = process_id();
    hello.rank = static_cast<std::uint32_t>(launch_.rank);
    hello.size = static_cast<std::uint32_t>(launch_.size);
    std::optional<wire::Frame> answer;
    std::string server_nonce;
    if (endpoint_.is_unix() && credentials_of(socket_).uid != ::geteuid()) {
      why = concat("user ", credentials_of(socket_).uid, " listens there, not the user of this rank");
      return false;
    }
    const std::string before = std::exchange(why, "something else listens there");
    bool proved = false;
    try {
      const std::optional<wire::Frame> challenge = receive(deadline);
      // A deadline that passes just here must not hide the findings of earlier attempts.
      if (!challenge && (!before.empty() || secret_refused_)) why = before;
      if (!challenge || challenge->kind != MessageKind::challenge) return false;
      server_nonce = wire::Unpacker(challenge->body).text();
      wire::Packer body;
      body.text(hello.client_nonce).text(hello.generation).u64(hello.process).u32(hello.rank).u32(hello.size);
      body.text(store_protocol::client_proof(launch_.secret, server_nonce, hello));
      send_all(socket_, wire::encode(MessageKind::hello, body.body()), deadline);
      proved = true;
      why = "the server did not answer";
      answer = receive(deadline);
    } catch (const Error&) {
      if (proved) refuse_secret(why);
      return false;  // closed or malformed: `why` says already how to read that here
    }
    if (!answer) return false;
    wire::Unpacker body(answer->body);
    if (answer->kind == MessageKind::failed && body.u64() == 0) throw wire::unpack_error(body);
    if (answer->kind != MessageKind::welcome ||
        !equal_in_constant_time(body.text(), store_protocol::server_proof(launch_.secret, server_nonce, hello))) {
      refuse_secret(why);
      return false;
    }
    reader_.allow(wire::kMaxBodyBytes);
    return true;
  }

  void refuse_secret(std::string& why) {
    secret_refused_ = true;
    why.clear();
  }

  void send(MessageKind kind, const wire::Packer& body) {
    try {
      send_all(socket_, wire::encode(kind, body.body()), Deadline(kSendLimitS));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::invalid_argument) throw;
      lost(error.what());
    }
  }

  [[noreturn]] void lost(const std::string& why) const {
    fail(ErrorCode::aborted, "rank ", launch_.rank, " lost its connection to rank 0 at ", endpoint_.describe(),
         " (rank 0's process ended?): ", why);
  }

  // The next frame, or nothing at the deadline.
  std::optional<wire::Frame> receive(Deadline deadline) {
    while (true) {
      if (std::optional<wire::Frame> frame = reader_.next()) return frame;
      if (!wait_for(socket_, POLLIN, deadline)) return std::nullopt;
      std::string bytes;
      if (receive_some(socket_, bytes) == Received::end) lost("the connection closed");
      reader_.feed(bytes);
    }
  }

  // The answer to `id`, or nothing at the deadline. Answers to questions given up earlier are passed over.
  std::optional<wire::Frame> await(std::uint64_t id, MessageKind expected, Deadline deadline) {
    while (std::optional<wire::Frame> frame = receive(deadline)) {
      wire::Unpacker body(frame->body);
      if (body.u64() != id) continue;
      if (frame->kind == MessageKind::failed) throw wire::unpack_error(body);
      require(frame->kind == expected, "the store answered with a frame of kind ", static_cast<int>(frame->kind));
      return frame;
    }
    return std::nullopt;
  }

  static wire::Unpacker after_id(const wire::Frame& frame) {
    wire::Unpacker body(frame.body);
    body.u64();
    return body;
  }

  // "ranks 2, 5": the ranks that have not joined the topic, as the server knows it.
  std::string absent_from(std::string_view topic) {
    const std::uint64_t id = ++last_id_;
    send(MessageKind::missing, wire::Packer().u64(id).text(topic));
    const std::optional<wire::Frame> answer = await(id, MessageKind::absent, Deadline(1.0));
    if (!answer) return "some ranks (the store itself does not answer)";
    wire::Unpacker body = after_id(*answer);
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t left = body.u32(); left > 0; --left) ranks.push_back(body.u32());
    return ranks.empty() ? "the last ranks" : list_of(ranks);
  }

  const Launch launch_;
  Endpoint endpoint_;
  std::shared_ptr<StoreServer> server_;  // of rank 0

  std::mutex mutex_;  // one question at a time
  Fd socket_;
  bool secret_refused_ = false;
  wire::FrameReader reader_;
  std::uint64_t last_id_ = 0;

  // A world of one rank needs no server.
  std::map<std::string, std::string, std::less<>> alone_;
  std::condition_variable alone_changed_;
};

Store::Store(const Launch& launch, Deadline deadline)
    : implementation_(std::make_unique<Implementation>(launch, deadline)) {}
Store::~Store() = default;

int Store::port() const { return implementation_->port(); }
std::string Store::local_number() const { return implementation_->local_number(); }
void Store::set(std::string_view key, std::string_view value) { implementation_->set(key, value); }
std::string Store::get(std::string_view key, Deadline deadline) { return implementation_->get(key, deadline); }
void Store::tell_failure(const std::string& what) { implementation_->tell_failure(what); }
std::string Store::failure_told() { return implementation_->failure_told(); }
std::vector<std::string> Store::all_gather(std::string_view topic, std::string_view mine, Deadline deadline) {
  return implementation_->all_gather(topic, mine, deadline);
}

}  // namespace onstream
