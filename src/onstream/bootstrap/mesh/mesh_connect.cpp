#include "onstream/bootstrap/mesh/mesh_connect.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>

#include "onstream/base/error.hpp"
#include "onstream/bootstrap/host.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/bootstrap/socket.hpp"
#include "onstream/bootstrap/store/store_protocol.hpp"

namespace onstream {
namespace {

constexpr std::uint8_t kHello = 1;             // {from, proof}, by the one that connects
constexpr std::uint8_t kAccepted = 2;          // {proof}, by the one that listens
constexpr std::size_t kMaxMeshStrangers = 64;  // beside the ranks, which may all come at once

// Every rank publishes its own.
struct Address {
  std::string name;
  std::string nonce;
  int pid = 0;
  Host host;
};

std::string pack(const Address& address) {
  return wire::Packer()
      .text(address.name)
      .text(address.nonce)
      .u32(static_cast<std::uint32_t>(address.pid))
      .text(encode(address.host))
      .body();
}

Address unpack(const std::string& text) {
  wire::Unpacker body(text);
  Address address;
  address.name = body.text();
  address.nonce = body.text();
  address.pid = static_cast<int>(body.u32());
  address.host = decode_host(std::string(body.text()));
  body.end();
  return address;
}

// Both nonces are fresh in every mesh and known only to those in the store, so a proof is good for one connection.
std::string prove(const Launch& launch, const std::vector<Address>& addresses, int from, int to) {
  wire::Packer text;
  text.text("onstream mesh").u32(static_cast<std::uint32_t>(from)).u32(static_cast<std::uint32_t>(to));
  text.text(addresses[static_cast<std::size_t>(from)].nonce).text(addresses[static_cast<std::size_t>(to)].nonce);
  return hmac_sha256(launch.secret, text.body());
}

std::string who(const std::vector<Address>& addresses, int rank) {
  return concat("rank ", rank, " (pid ", addresses[static_cast<std::size_t>(rank)].pid, ")");
}

class Connector {
 public:
  Connector(const Launch& launch, Store& store, Deadline deadline)
      : launch_(launch), store_(store), deadline_(deadline), peers_(static_cast<std::size_t>(launch.size)) {
    Endpoint endpoint{concat("unix:onstream-", to_hex(random_bytes(16))), 0};
    listener_ = listen_at(endpoint, ListenScope::this_host);
    if (!listener_.valid()) fail(ErrorCode::system, "the random name ", endpoint.address, " is taken");
    const Address mine{endpoint.address, random_bytes(32), static_cast<int>(::getpid()), this_host()};
    for (const std::string& text : store_.all_gather("the start of the world", pack(mine), deadline_))
      addresses_.push_back(unpack(text));
    check_hosts(mine.host);
    watch_processes(mine.host);
  }

  std::vector<ConnectedPeer> connect() {
    for (int peer = 0; peer < launch_.rank; ++peer) connect_to(peer);
    while (!all_proved()) accept_more();
    return std::move(peers_);
  }

 private:
  // A process that connected and has not named its rank.
  struct Stranger {
    MeshLink link;
  };

  void check_hosts(const Host& mine) const {
    std::string others;
    for (int rank = 0; rank < launch_.size; ++rank) {
      const Host& host = addresses_[static_cast<std::size_t>(rank)].host;
      if (!same_host(mine, host)) others += concat(others.empty() ? "rank " : ", rank ", rank, " runs on ", host.name);
    }
    if (!others.empty())
      fail(ErrorCode::unsupported, "rank ", launch_.rank, " runs on ", mine.name, ", but ", others,
           " (another machine or network namespace); this version connects the ranks of one host");
  }

  void watch_processes(const Host& mine) {
    for (int rank = 0; rank < launch_.size; ++rank) {
      const Address& address = addresses_[static_cast<std::size_t>(rank)];
      ConnectedPeer& peer = peers_[static_cast<std::size_t>(rank)];
      peer.pid = address.pid;
      if (rank == launch_.rank || address.host.pid_namespace != mine.pid_namespace) continue;
      // No library call on older systems. Sets close-on-exec by itself.
      peer.process = Fd(static_cast<int>(::syscall(SYS_pidfd_open, address.pid, 0)));
    }
  }

  void connect_to(int peer) {
    const Address& address = addresses_[static_cast<std::size_t>(peer)];
    std::string why;
    Fd socket;
    while (!(socket = connect_once(Endpoint{address.name, 0}, deadline_, why)).valid()) {
      const bool listens = errno != ECONNREFUSED;  // it did before it told its name
      if (process_ended(peer)) fail_died(peer);
      if (!listens) fail_gave_up(peer);
      if (deadline_.passed()) timed_out();
      wait_for(listener_, 0, Deadline(std::min(0.01, deadline_.left_s())));  // only a pause: its backlog was full
    }
    require(credentials_of(socket).uid == ::geteuid(), "rank ", peer,
            " belongs to another user; start all ranks as one");
    ConnectedPeer& connected = peers_[static_cast<std::size_t>(peer)];
    connected.pid = credentials_of(socket).pid;
    connected.link = MeshLink(std::move(socket));
    wire::Packer hello;
    hello.u32(static_cast<std::uint32_t>(launch_.rank)).text(prove(launch_, addresses_, launch_.rank, peer));
    connected.link.enqueue(wire::encode(kHello, hello.body()), Fd());
    connected.link.write_some();
  }

  bool all_proved() const { return proved_.size() + 1 == peers_.size(); }

  bool proved(int rank) const { return std::find(proved_.begin(), proved_.end(), rank) != proved_.end(); }

  // One turn of the loop: waits for an event and takes in the bytes that came.
  void accept_more() {
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
    for (const Stranger& stranger : strangers_) polled.push_back({stranger.link.socket().get(), POLLIN, 0});
    for (int peer = 0; peer < launch_.size; ++peer) {
      if (proved(peer) || peer == launch_.rank) continue;
      const ConnectedPeer& one = peers_[static_cast<std::size_t>(peer)];
      if (one.link.open()) polled.push_back({one.link.socket().get(), POLLIN, 0});
      if (one.process.valid()) polled.push_back({one.process.get(), POLLIN, 0});
    }
    poll_some(polled, milliseconds_left(deadline_, 100));
    // Looked at before reading: all that a process wrote before it ended is then certain to be read below.
    std::vector<int> ended;
    for (int peer = 0; peer < launch_.size; ++peer)
      if (process_ended(peer)) ended.push_back(peer);
    for (Fd socket; (socket = accept_one(listener_)).valid();) take_stranger(std::move(socket));
    if (errno == EMFILE || errno == ENFILE)
      fail_errno("cannot accept another rank (is the limit of open files, ulimit -n, reached?)");
    for (Stranger& stranger : strangers_) hear_stranger(stranger);
    std::erase_if(strangers_, [](const Stranger& stranger) { return !stranger.link.open(); });
    for (int peer = 0; peer < launch_.rank; ++peer)
      if (!proved(peer)) hear_acceptance(peer);
    for (const int peer : ended)
      if (!proved(peer)) fail_died(peer);
    if (deadline_.passed() && !all_proved()) timed_out();
  }

  void take_stranger(Fd socket) {
    if (credentials_of(socket).uid != ::geteuid()) return;
    if (strangers_.size() >= kMaxMeshStrangers + peers_.size()) strangers_.pop_front();
    strangers_.push_back({MeshLink(std::move(socket))});
  }

  void hear_stranger(Stranger& stranger) {
    const Received received = stranger.link.read_some();
    try {
      if (std::optional<MeshLink::ReceivedFrame> first = stranger.link.next()) return admit(stranger, first->frame);
    } catch (const Error&) {
      return stranger.link.close();  // malformed: dropped without an answer
    }
    if (received == Received::end) stranger.link.close();
  }

  void admit(Stranger& stranger, const wire::Frame& frame) {
    wire::Unpacker body(frame.body);
    const std::uint32_t from = body.u32();
    const std::string_view proof = body.text();
    body.end();
    require(frame.kind == kHello && from < peers_.size(), "not a hello");
    const int peer = static_cast<int>(from);
    require(peer > launch_.rank && !proved(peer) &&
                equal_in_constant_time(proof, prove(launch_, addresses_, peer, launch_.rank)),
            "a wrong proof");
    ConnectedPeer& connected = peers_[from];
    connected.pid = credentials_of(stranger.link.socket()).pid;
    connected.link = std::move(stranger.link);
    stranger.link = MeshLink();
    const std::string answer = prove(launch_, addresses_, launch_.rank, peer);
    connected.link.enqueue(wire::encode(kAccepted, wire::Packer().text(answer).body()), Fd());
    connected.link.write_some();
    accept_as_proved(peer);
  }

  void hear_acceptance(int peer) {
    MeshLink& link = peers_[static_cast<std::size_t>(peer)].link;
    const Received received = link.read_some();
    if (std::optional<MeshLink::ReceivedFrame> first = link.next()) {
      wire::Unpacker body(first->frame.body);
      require(first->frame.kind == kAccepted &&
                  equal_in_constant_time(body.text(), prove(launch_, addresses_, peer, launch_.rank)),
              who(addresses_, peer), " does not know the job's secret");
      return accept_as_proved(peer);
    }
    if (received == Received::end) fail_gave_up(peer);
  }

  void accept_as_proved(int peer) {
    peers_[static_cast<std::size_t>(peer)].link.allow(wire::kMaxBodyBytes);
    proved_.push_back(peer);
  }

  bool process_ended(int peer) const {
    const Fd& process = peers_[static_cast<std::size_t>(peer)].process;
    return process.valid() && wait_for(process, POLLIN, Deadline(0));
  }

  [[noreturn]] void fail_died(int peer) const {
    fail_after_another(ErrorCode::aborted, who(addresses_, peer) + " died while the ranks connected");
  }

  [[noreturn]] void fail_gave_up(int peer) const {
    fail_after_another(ErrorCode::aborted, who(addresses_, peer) + " died, or gave up, while the ranks connected");
  }

  // That a rank has ended is seldom the cause: it may have failed by the end of yet another.
  [[noreturn]] void fail_after_another(ErrorCode code, const std::string& what) const {
    fail(code, store_protocol::with_first_failure(what, store_.failure_told()));
  }

  [[noreturn]] void timed_out() const {
    std::string absent;
    for (int rank = 0; rank < launch_.size; ++rank)
      if (rank != launch_.rank && !proved(rank)) absent += concat(absent.empty() ? "" : ", ", who(addresses_, rank));
    const std::string what = concat(absent, " of ", launch_.size, " did not connect to rank ", launch_.rank, " within ",
                                    deadline_.limit_s(), " s");
    store_.tell_failure(what);
    fail_after_another(ErrorCode::timeout, what);
  }

  const Launch& launch_;
  Store& store_;
  const Deadline deadline_;
  Fd listener_;
  std::vector<Address> addresses_;
  std::vector<ConnectedPeer> peers_;
  std::list<Stranger> strangers_;
  std::vector<int> proved_;
};

}  // namespace

std::vector<ConnectedPeer> connect_mesh(const Launch& launch, Store& store, Deadline deadline) {
  return Connector(launch, store, deadline).connect();
}

}  // namespace onstream
