#include "onstream/bootstrap/mesh/mesh_connect.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>

#include "onstream/base/error.hpp"
#include "onstream/bootstrap/host.hpp"
#include "onstream/bootstrap/interfaces.hpp"
#include "onstream/bootstrap/mesh/mesh_address.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/bootstrap/socket.hpp"
#include "onstream/bootstrap/store/store_protocol.hpp"

namespace onstream {
namespace {

constexpr std::uint8_t kHello = 1;             // {from, proof}, by the one that connects
constexpr std::uint8_t kAccepted = 2;          // {proof}, by the one that listens
constexpr std::size_t kMaxMeshStrangers = 64;  // beside the ranks, which may all come at once
constexpr double kStrangerLimitS = 10.0;
constexpr double kAttemptLimitS = 2.0;  // then the peer's next endpoint is tried
constexpr double kPauseS = 0.02;        // between two rounds over a peer's endpoints
// The kernel's own limit. A peer that reads nothing for long is alive as long as its pulse comes.
constexpr double kUnacknowledgedLimit = 10;  // times network_timeout_s

class Connector {
 public:
  Connector(const Launch& launch, Store& store, const MeshOptions& options, Deadline deadline)
      : launch_(launch),
        store_(store),
        options_(options),
        deadline_(deadline),
        peers_(static_cast<std::size_t>(launch.size)),
        attempts_(static_cast<std::size_t>(launch.rank)) {
    const Host host = options.host ? *options.host : this_host();
    Endpoint endpoint{concat("unix:onstream-", to_hex(random_bytes(16))), 0};
    Fd listener = listen_at(endpoint, ListenScope::this_host);
    if (!listener.valid()) fail(ErrorCode::system, "the random name ", endpoint.address, " is taken");
    listeners_.push_back({std::move(listener), endpoint});
    const MeshAddress mine{endpoint.address, random_bytes(32), static_cast<int>(::getpid()), host};
    for (const std::string& text : store_.all_gather("the start of the world", pack(mine), deadline_))
      addresses_.push_back(unpack_address(text));
    for (int rank = 0; rank < launch_.size; ++rank) describe_peer(rank);
    find_endpoints();
  }

  std::vector<ConnectedPeer> connect() {
    while (!all_proved()) {
      connect_where_due();
      accept_more();
    }
    return std::move(peers_);
  }

 private:
  struct Listener {
    Fd socket;
    Endpoint endpoint;
  };
  // A process that connected and has not named its rank.
  struct Stranger {
    MeshLink link;
    Endpoint endpoint;  // where it was accepted
    Deadline limit{kStrangerLimitS};
  };
  // To connect to a lower rank.
  struct Attempt {
    std::vector<Endpoint> endpoints;
    std::size_t next = 0;
    Endpoint connected;  // valid while the peer's link is open
    Deadline due{0};
    std::string why;
  };

  ConnectedPeer& at(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const ConnectedPeer& at(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  Attempt& attempt(int rank) { return attempts_[static_cast<std::size_t>(rank)]; }
  MeshEnd end(int rank) const { return {rank, addresses_[static_cast<std::size_t>(rank)]}; }

  std::string who(int rank) const {
    return name_of_rank(rank, at(rank).pid, at(rank).same_host ? "" : at(rank).host_name);
  }

  void describe_peer(int rank) {
    const MeshAddress& address = addresses_[static_cast<std::size_t>(rank)];
    const Host& mine = addresses_[static_cast<std::size_t>(launch_.rank)].host;
    ConnectedPeer& peer = at(rank);
    peer.pid = address.pid;
    peer.host_name = address.host.name;
    peer.same_host = same_host(mine, address.host);
    const auto beside = [&](const MeshAddress& other) { return same_host(other.host, address.host); };
    peer.host = static_cast<int>(std::ranges::find_if(addresses_, beside) - addresses_.begin());
    // The first pid namespaces of all hosts have one name.
    if (rank == launch_.rank || !peer.same_host || address.host.pid_namespace != mine.pid_namespace) return;
    // No library call on older systems. Sets close-on-exec by itself.
    peer.process = Fd(static_cast<int>(::syscall(SYS_pidfd_open, address.pid, 0)));
  }

  // Where the lower ranks listen; between hosts they tell it in a gather of its own.
  void find_endpoints() {
    for (int peer = 0; peer < launch_.rank; ++peer)
      attempt(peer).endpoints = {{addresses_[static_cast<std::size_t>(peer)].name, 0}};
    if (std::ranges::all_of(peers_, [](const ConnectedPeer& peer) { return peer.same_host; })) return;
    const std::string local = store_.local_number();
    const auto told = store_.all_gather("the addresses between hosts", pack(listen_for_hosts(local)), deadline_);
    for (int peer = 0; peer < launch_.rank; ++peer) {
      if (at(peer).same_host) continue;
      std::vector<Endpoint> endpoints = unpack_endpoints(told[static_cast<std::size_t>(peer)]);
      nearest_first(endpoints, local);
      attempt(peer).endpoints = std::move(endpoints);
    }
  }

  std::vector<Endpoint> listen_for_hosts(const std::string& local) {
    std::vector<Endpoint> endpoints;
    std::string why = "it has no address";
    for (const std::string& number : numbers_to_reach(options_.network_interface, local, interface_addresses())) {
      Endpoint endpoint{number, 0};
      Fd socket = listen_near(endpoint);
      if (!socket.valid()) {
        why = error_text(errno);
        continue;
      }
      endpoints.push_back(endpoint);
      listeners_.push_back({std::move(socket), endpoint});
    }
    if (endpoints.empty())
      fail(ErrorCode::system, "rank ", launch_.rank,
           " cannot listen for ranks of other hosts (network_interface=", options_.network_interface, "): ", why);
    return endpoints;
  }

  // --- to the lower ranks ---

  void connect_where_due() {
    for (int peer = 0; peer < launch_.rank; ++peer)
      if (!proved(peer) && !at(peer).link.open() && attempt(peer).due.passed()) connect_to(peer);
  }

  // Tries each of the peer's endpoints once.
  void connect_to(int peer) {
    Attempt& one = attempt(peer);
    bool refused = true;
    for (std::size_t i = 0; i < one.endpoints.size(); ++i) {
      const Endpoint& endpoint = one.endpoints[one.next++ % one.endpoints.size()];
      const double limit_s = at(peer).same_host ? deadline_.left_s() : std::min(kAttemptLimitS, deadline_.left_s());
      Fd socket = connect_once(endpoint, Deadline(limit_s), one.why);
      if (socket.valid()) return greet(peer, endpoint, std::move(socket));
      refused = refused && errno == ECONNREFUSED;  // it listened before it told its address
    }
    if (process_ended(peer)) fail_died(peer);
    if (refused) fail_gave_up(peer);
    one.due = Deadline(kPauseS);  // its backlog was full, or the network is not up yet
  }

  void greet(int peer, const Endpoint& endpoint, Fd socket) {
    ConnectedPeer& connected = at(peer);
    if (endpoint.is_unix()) {
      require(credentials_of(socket).uid == ::geteuid(), "rank ", peer,
              " belongs to another user; start all ranks as one");
      connected.pid = credentials_of(socket).pid;
    } else {
      expect_silence(socket, kUnacknowledgedLimit * options_.network_timeout_s);
    }
    attempt(peer).connected = endpoint;
    connected.link = MeshLink(std::move(socket));
    wire::Packer hello;
    hello.u32(static_cast<std::uint32_t>(launch_.rank));
    hello.text(prove(launch_.secret, end(launch_.rank), end(peer), endpoint));
    connected.link.enqueue(wire::encode(kHello, hello.body()), Fd());
    connected.link.write_some();
  }

  void hear_acceptance(int peer) {
    MeshLink& link = at(peer).link;
    if (!link.open()) return;
    Received received = Received::end;
    try {
      received = link.read_some(1);
      if (const std::optional<MeshLink::ReceivedFrame> first = link.next()) {
        wire::Unpacker body(first->frame.body);
        const std::string expected = prove(launch_.secret, end(peer), end(launch_.rank), attempt(peer).connected);
        require(first->frame.kind == kAccepted && equal_in_constant_time(body.text(), expected), who(peer),
                " does not know the job's secret");
        return accept_as_proved(peer);
      }
    } catch (const Error& error) {
      if (at(peer).same_host) throw;
      return try_again(peer, error.what());  // somebody else listens at this endpoint
    }
    if (received != Received::end) return;
    if (at(peer).same_host) fail_gave_up(peer);
    try_again(peer, "the connection was closed");  // its strangers may have been too many
  }

  void try_again(int peer, const std::string& why) {
    attempt(peer).why = concat(attempt(peer).connected.describe(), ": ", why);
    attempt(peer).due = Deadline(kPauseS);
    at(peer).link = MeshLink();
  }

  // --- from the higher ranks ---

  bool all_proved() const { return proved_.size() + 1 == peers_.size(); }

  bool proved(int rank) const { return std::ranges::find(proved_, rank) != proved_.end(); }

  // One turn of the loop: waits for an event and takes in the bytes that came.
  void accept_more() {
    wait_for_some();
    // Looked at before reading: all that a process wrote before it ended is then certain to be read below.
    std::vector<int> ended;
    for (int peer = 0; peer < launch_.size; ++peer)
      if (process_ended(peer)) ended.push_back(peer);
    for (const Listener& listener : listeners_) accept_at(listener);
    for (Stranger& stranger : strangers_) hear_stranger(stranger);
    std::erase_if(strangers_, [](const Stranger& stranger) { return !stranger.link.open(); });
    for (int peer = 0; peer < launch_.rank; ++peer)
      if (!proved(peer)) hear_acceptance(peer);
    for (const int peer : ended)
      if (!proved(peer)) fail_died(peer);
    if (deadline_.passed() && !all_proved()) timed_out();
  }

  void wait_for_some() {
    std::vector<pollfd> polled;
    for (const Listener& listener : listeners_) polled.push_back({listener.socket.get(), POLLIN, 0});
    for (const Stranger& stranger : strangers_) polled.push_back({stranger.link.socket().get(), POLLIN, 0});
    int limit_ms = 100;
    for (int peer = 0; peer < launch_.size; ++peer) {
      if (proved(peer) || peer == launch_.rank) continue;
      if (at(peer).link.open()) polled.push_back({at(peer).link.socket().get(), POLLIN, 0});
      if (at(peer).process.valid()) polled.push_back({at(peer).process.get(), POLLIN, 0});
      if (peer < launch_.rank && !at(peer).link.open()) limit_ms = milliseconds_left(attempt(peer).due, limit_ms);
    }
    poll_some(polled, milliseconds_left(deadline_, limit_ms));
  }

  // No more at once than there is room for: a flood of strangers must not keep this rank from its own connections.
  void accept_at(const Listener& listener) {
    const std::size_t room = kMaxMeshStrangers + peers_.size();
    for (std::size_t taken = 0; taken < room; ++taken) {
      Fd socket = accept_one(listener.socket);
      if (!socket.valid() && (errno == EMFILE || errno == ENFILE))
        fail_errno("cannot accept another rank (is the limit of open files, ulimit -n, reached?)");
      if (!socket.valid()) return;
      if (!listener.endpoint.is_unix())
        expect_silence(socket, kUnacknowledgedLimit * options_.network_timeout_s);
      else if (credentials_of(socket).uid != ::geteuid())
        continue;
      if (strangers_.size() >= room) strangers_.pop_front();
      Stranger& stranger = strangers_.emplace_back(MeshLink(std::move(socket)), listener.endpoint);
      hear_stranger(stranger);  // a rank's hello is often here already: no later stranger displaces it then
      if (!stranger.link.open()) strangers_.pop_back();
    }
  }

  void hear_stranger(Stranger& stranger) {
    const Received received = stranger.link.read_some(1);
    try {
      if (std::optional<MeshLink::ReceivedFrame> first = stranger.link.next()) return admit(stranger, first->frame);
    } catch (const Error&) {
      return stranger.link.close();  // malformed: dropped without an answer
    }
    if (received == Received::end || stranger.limit.passed()) stranger.link.close();
  }

  void admit(Stranger& stranger, const wire::Frame& frame) {
    wire::Unpacker body(frame.body);
    const std::uint32_t from = body.u32();
    const std::string_view proof = body.text();
    body.end();
    require(frame.kind == kHello && from < peers_.size(), "not a hello");
    const int peer = static_cast<int>(from);
    require(peer > launch_.rank && !proved(peer) && at(peer).same_host == stranger.endpoint.is_unix() &&
                equal_in_constant_time(proof, prove(launch_.secret, end(peer), end(launch_.rank), stranger.endpoint)),
            "a wrong proof");
    ConnectedPeer& connected = at(peer);
    if (stranger.endpoint.is_unix()) connected.pid = credentials_of(stranger.link.socket()).pid;
    connected.link = std::move(stranger.link);
    stranger.link = MeshLink();
    const std::string answer = prove(launch_.secret, end(launch_.rank), end(peer), stranger.endpoint);
    connected.link.enqueue(wire::encode(kAccepted, wire::Packer().text(answer).body()), Fd());
    connected.link.write_some();
    accept_as_proved(peer);
  }

  void accept_as_proved(int peer) {
    at(peer).link.allow(wire::kMaxBodyBytes);
    proved_.push_back(peer);
  }

  // --- failures ---

  bool process_ended(int peer) const {
    const Fd& process = at(peer).process;
    return process.valid() && wait_for(process, POLLIN, Deadline(0));
  }

  [[noreturn]] void fail_died(int peer) const {
    fail_after_another(ErrorCode::aborted, who(peer) + " died while the ranks connected");
  }

  [[noreturn]] void fail_gave_up(int peer) const {
    fail_after_another(ErrorCode::aborted, who(peer) + " died, or gave up, while the ranks connected");
  }

  // That a rank has ended is seldom the cause: it may have failed by the end of yet another.
  [[noreturn]] void fail_after_another(ErrorCode code, const std::string& what) const {
    fail(code, store_protocol::with_first_failure(what, store_.failure_told()));
  }

  // "rank 1 (pid 71 on node2; 10.0.0.2 port 4711: no answer)".
  std::string absent_name(int rank) const {
    const std::string name = who(rank);
    if (rank >= launch_.rank || at(rank).same_host) return name;
    const Attempt& one = attempts_[static_cast<std::size_t>(rank)];
    std::string places;
    for (const Endpoint& endpoint : one.endpoints) places += concat(places.empty() ? "" : ", ", endpoint.describe());
    return concat(name, " at ", places, one.why.empty() ? "" : concat(" (", one.why, ")"));
  }

  [[noreturn]] void timed_out() const {
    std::string absent;
    for (int rank = 0; rank < launch_.size; ++rank)
      if (rank != launch_.rank && !proved(rank)) absent += concat(absent.empty() ? "" : ", ", absent_name(rank));
    const std::string what = concat(absent, " of ", launch_.size, " did not connect to rank ", launch_.rank, " within ",
                                    deadline_.limit_s(), " s");
    store_.tell_failure(what);
    fail_after_another(ErrorCode::timeout, what);
  }

  const Launch& launch_;
  Store& store_;
  const MeshOptions& options_;
  const Deadline deadline_;
  std::vector<Listener> listeners_;
  std::vector<MeshAddress> addresses_;
  std::vector<ConnectedPeer> peers_;
  std::vector<Attempt> attempts_;  // one a lower rank
  std::list<Stranger> strangers_;
  std::vector<int> proved_;
};

}  // namespace

std::vector<ConnectedPeer> connect_mesh(const Launch& launch, Store& store, const MeshOptions& options,
                                        Deadline deadline) {
  return Connector(launch, store, options, deadline).connect();
}

}  // namespace onstream
