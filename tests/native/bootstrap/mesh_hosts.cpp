// The mesh between hosts, which this machine pretends to be several of, connected by its loopback. Ranks are threads,
// and processes where one of them is stopped or killed.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>
#include <random>

#include "bootstrap_ranks.hpp"
#include "onstream/base/error.hpp"
#include "onstream/bootstrap/host.hpp"
#include "onstream/bootstrap/interfaces.hpp"
#include "onstream/bootstrap/mesh/mesh.hpp"
#include "onstream/bootstrap/mesh/mesh_address.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/bootstrap/socket.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/bootstrap/wire.hpp"
#include "onstream/launch.hpp"
#include "support/check.hpp"
#include "support/processes.hpp"

namespace {

using namespace onstream;
using namespace onstream::test;

constexpr double kShortTimeoutS = 1.0;
constexpr std::uint8_t kPulse = 9;
constexpr std::uint8_t kGivenUp = 10;

Host pretended(int number) {
  Host host = this_host();
  host.name = concat("node", number);
  host.boot_id = concat("pretended ", number);
  return host;
}

MeshOptions on_host(int number, double timeout_s = 20) { return {"lo", timeout_s, pretended(number)}; }

struct HostRank {
  HostRank(const Launch& launch, const MeshOptions& options)
      : store(launch, Deadline(kSoonS)), mesh(launch, store, Deadline(kSoonS), options) {}
  Store store;
  Mesh mesh;
};

// Whether nobody died for so long.
bool passes_without(std::future<std::string>& death, double seconds) {
  return death.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::timeout;
}

// One of every kind of call between any two ranks.
void talk(const std::vector<int>& host_of, int rank, Mesh& mesh) {
  const int size = static_cast<int>(host_of.size());
  const auto place = [&](int one) { return host_of[static_cast<std::size_t>(one)]; };
  CHECK(mesh.all_gather("who", concat(rank), Deadline(kSoonS)).back() == concat(size - 1));
  for (int peer = 0; peer < size; ++peer) {
    CHECK(mesh.same_host(peer) == (place(peer) == place(rank)));
    CHECK(mesh.host_name(peer) == concat("node", place(peer)));
    CHECK(mesh.pid(peer) == ::getpid());
    if (peer == rank) continue;
    mesh.notify(peer, "note", "x");
    const std::string large(std::size_t{1} << 20, 'x');
    CHECK(mesh.request(peer, "echo", large, Fd(), Deadline(kSoonS)) == large);
  }
}

void meet_on(const std::vector<int>& host_of, const std::function<Launch(int)>& launch, const std::string& interfaces) {
  std::atomic<int> deaths{0};
  std::atomic<int> notes{0};
  const int size = static_cast<int>(host_of.size());
  as_ranks(size, [&](int rank) {
    MeshOptions options = on_host(host_of[static_cast<std::size_t>(rank)]);
    options.network_interface = interfaces;
    HostRank one(launch(rank), options);
    one.mesh.on("echo", [](int, std::string payload, Fd) { return payload; });
    one.mesh.on("note", [&](int, const std::string&, Fd) {
      ++notes;
      return std::string();
    });
    one.mesh.on_death([&](int, const std::string&) { ++deaths; });
    one.mesh.start();
    talk(host_of, rank, one.mesh);
    one.mesh.all_gather("test/end", "", Deadline(kSoonS));
  });
  CHECK(deaths == 0);
  CHECK(notes == size * (size - 1));
}

CASE(hosts_of_one_to_three_ranks_start_gather_and_answer) {
  for (const std::vector<int>& host_of : std::vector<std::vector<int>>{{0, 1}, {0, 0, 1, 1, 1, 2}, {2, 0, 1, 0, 2}}) {
    const std::string address = fresh_name();
    const int size = static_cast<int>(host_of.size());
    meet_on(host_of, [&](int rank) { return launch_of(rank, size, address); }, "lo");
  }
}

CASE(ranks_of_several_hosts_meet_at_the_number_of_a_store_of_either_family) {
  for (const std::string number : {"127.0.0.1", "::1"}) {
    Endpoint free{number, 0};
    const Fd listener = listen_near(free);
    if (!listener.valid()) SKIP("this machine has no " + number);
  }
  for (const std::string number : {"127.0.0.1", "::1"}) {
    Endpoint free{number, 0};
    listen_near(free).reset();
    const auto launch = [&](int rank) {
      Launch one = launch_of(rank, 3, number);
      one.port = free.port;
      return one;
    };
    meet_on({0, 1, 1}, launch, "auto");
  }
}

CASE(a_file_descriptor_to_another_host_is_refused_by_name) {
  const std::string address = fresh_name();
  as_ranks(2, [&](int rank) {
    HostRank one(launch_of(rank, 2, address), on_host(rank));
    one.mesh.start();
    try {
      one.mesh.request(1 - rank, "segment", "", Fd(::memfd_create("test", MFD_CLOEXEC)), Deadline(kSoonS));
      CHECK(false);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      CHECK(error.what() == concat("'segment' carries a file descriptor, which cannot travel to rank ", 1 - rank,
                                   " (pid ", ::getpid(), " on node", 1 - rank, ")"));
    }
    one.mesh.all_gather("test/end", "", Deadline(kSoonS));
  });
}

CASE(a_goodbye_to_other_hosts_is_not_a_death) {
  std::atomic<int> deaths{0};
  for (int i = 0; i < 50; ++i) {
    const std::string address = fresh_name();
    as_ranks(3, [&](int rank) {
      HostRank one(launch_of(rank, 3, address), on_host(rank / 2));
      one.mesh.on_death([&](int, const std::string&) { ++deaths; });
      one.mesh.start();
      one.mesh.all_gather("start", "", Deadline(kSoonS));
      if (rank == 2) return;
      CHECK_THROWS(one.mesh.all_gather("next", "", Deadline(kSoonS)), "left the world");
      one.mesh.notify(2, "nobody", "");
    });
  }
  CHECK(deaths == 0);
}

CASE(a_pulse_keeps_idle_ranks_alive_and_the_death_of_one_that_withholds_it_is_told_to_it) {
  const std::string address = fresh_name();
  std::atomic<bool> turns{true};
  as_ranks(2, [&](int rank) {
    HostRank one(launch_of(rank, 2, address), on_host(rank, kShortTimeoutS));
    std::promise<std::string> died;
    std::future<std::string> death = died.get_future();
    one.mesh.on_death([&](int, std::string why) { died.set_value(std::move(why)); });
    if (rank == 1) one.mesh.on_pulse([&] { return turns.load(); });
    one.mesh.start();
    one.mesh.all_gather("start", "", Deadline(kSoonS));
    CHECK(passes_without(death, 3 * kShortTimeoutS));
    one.mesh.all_gather("idle", "", Deadline(kSoonS));
    if (rank == 1) turns = false;
    CHECK(death.wait_for(std::chrono::duration<double>(kSoonS)) == std::future_status::ready);
    const std::string peer = concat("rank ", 1 - rank, " (pid ", ::getpid(), " on node", 1 - rank, ")");
    const std::string why = death.get();
    CHECK(why == (rank == 0 ? concat(peer,
                                     " has not answered for 0.8 s: its host or its process stands still, or the "
                                     "network between is cut")
                            : concat(peer, " gave this rank up: nothing had come from here for 0.8 s")));
  });
}

// --- a rank that is no more than sockets, on a host of its own ---

class BareRank {
 public:
  BareRank(const Launch& launch, int host) : launch_(launch), store_(launch, Deadline(kSoonS)) {
    mine_ = {fresh_name(), random_bytes(32), static_cast<int>(::getpid()), pretended(host)};
    for (const std::string& text : store_.all_gather("the start of the world", pack(mine_), Deadline(kSoonS)))
      addresses_.push_back(unpack_address(text));
    const std::vector<Endpoint> nowhere = {{"127.0.0.1", 1}};
    for (const std::string& text : store_.all_gather("the addresses between hosts", pack(nowhere), Deadline(kSoonS)))
      endpoints_.push_back(unpack_endpoints(text));
  }

  const std::vector<Endpoint>& endpoints(int rank) const { return endpoints_.at(static_cast<std::size_t>(rank)); }

  std::string hello(int to, const Endpoint& endpoint, const std::string& secret) const {
    const MeshEnd there{to, addresses_.at(static_cast<std::size_t>(to))};
    wire::Packer body;
    body.u32(static_cast<std::uint32_t>(launch_.rank));
    body.text(prove(secret, {launch_.rank, mine_}, there, endpoint));
    return wire::encode(1, body.body());
  }
  std::string hello(int to) const { return hello(to, endpoints(to).front(), launch_.secret); }

 private:
  const Launch launch_;
  Store store_;
  MeshAddress mine_;
  std::vector<MeshAddress> addresses_;
  std::vector<std::vector<Endpoint>> endpoints_;
};

Fd speak(const Endpoint& endpoint, std::string_view bytes) {
  std::string why;
  Fd socket = connect_once(endpoint, Deadline(kSoonS), why);
  if (!socket.valid()) return socket;
  try {
    send_all(socket, bytes, Deadline(kSoonS));
  } catch (const Error&) {
    // Dropped while it still spoke.
  }
  return socket;
}

// The kind of the first frame that comes and is not of the kind passed over; -1 if the connection ends before.
int first_kind(const Fd& socket, int passed_over = -1) {
  wire::FrameReader reader;
  while (socket.valid() && wait_for(socket, POLLIN, Deadline(kSoonS))) {
    std::string bytes;
    const Received received = receive_some(socket, bytes);
    reader.feed(bytes);
    while (const std::optional<wire::Frame> frame = reader.next())
      if (frame->kind != passed_over) return frame->kind;
    if (received == Received::end) break;
  }
  return -1;
}

CASE(a_wrong_proof_a_moved_one_and_a_replayed_one_are_refused) {
  std::string of_earlier_mesh;
  for (int world = 0; world < 2; ++world) {
    const std::string address = fresh_name();
    as_ranks(3, [&](int rank) {
      const Launch launch = launch_of(rank, 3, address);
      if (rank < 2) {
        HostRank one(launch, on_host(rank));
        one.mesh.start();
        CHECK_THROWS(one.mesh.all_gather("never", "", Deadline(kSoonS)), "rank 2 (pid ");
        return;
      }
      const BareRank bare(launch, 2);
      const Endpoint to_0 = bare.endpoints(0).front();
      if (!of_earlier_mesh.empty()) CHECK(first_kind(speak(to_0, of_earlier_mesh)) == -1);
      CHECK(first_kind(speak(to_0, bare.hello(0, to_0, "guessed"))) == -1);
      CHECK(first_kind(speak(to_0, bare.hello(1))) == -1);
      const Endpoint elsewhere{to_0.address, to_0.port + 1};
      CHECK(first_kind(speak(to_0, bare.hello(0, elsewhere, launch.secret))) == -1);
      const Fd accepted = speak(to_0, bare.hello(0));
      CHECK(first_kind(accepted) == 2);
      CHECK(first_kind(speak(to_0, bare.hello(0))) == -1);
      const Fd other = speak(bare.endpoints(1).front(), bare.hello(1));
      CHECK(first_kind(other) == 2);
      of_earlier_mesh = bare.hello(0);
    });
  }
}

std::string random_speech(std::mt19937& random) {
  std::string speech(random() % 6000, '\0');
  for (char& one : speech) one = static_cast<char>(random());
  if (random() % 2 == 0) {  // a frame that is nearly one of ours
    const std::string frame = wire::encode(static_cast<std::uint8_t>(random() % 4), speech.substr(0, random() % 64));
    speech = frame.substr(0, random() % (frame.size() + 1));
  }
  return speech;
}

CASE(a_thousand_strangers_with_random_bytes_are_dropped_and_the_mesh_starts) {
  const std::string address = fresh_name();
  std::atomic<int> answered{0};
  std::promise<void> all_answered;
  const std::shared_future<void> wait = all_answered.get_future().share();
  as_ranks(4, [&](int rank) {
    const Launch launch = launch_of(rank, 4, address);
    if (rank < 3) {
      HostRank one(launch, on_host(rank / 2));
      one.mesh.on("echo", [](int, std::string payload, Fd) { return payload; });
      one.mesh.start();
      CHECK(one.mesh.request((rank + 1) % 3, "echo", "x", Fd(), Deadline(kSoonS)) == "x");
      if (++answered == 3) all_answered.set_value();
      CHECK(wait.wait_for(std::chrono::duration<double>(kSoonS)) == std::future_status::ready);
      CHECK_THROWS(one.mesh.all_gather("never", "", Deadline(kSoonS)), "rank 3 (pid ");
      return;
    }
    const BareRank bare(launch, 3);
    std::mt19937 random(20261128);
    std::vector<Fd> held;
    for (int i = 0; i < 1000; ++i) {
      const auto& endpoints = bare.endpoints(static_cast<int>(random() % 3));
      Fd stranger = speak(endpoints[random() % endpoints.size()], random_speech(random));
      if (random() % 3 == 0) held.push_back(std::move(stranger));
    }
    std::vector<Fd> accepted;
    for (int peer = 0; peer < 3; ++peer) {
      accepted.push_back(speak(bare.endpoints(peer).front(), bare.hello(peer)));
      CHECK(first_kind(accepted.back()) == 2);
    }
  });
}

CASE(a_peer_that_stops_answering_is_dead_within_the_limit_and_is_told) {
  const std::string address = fresh_name();
  std::promise<std::uint64_t> silent;
  as_ranks(2, [&](int rank) {
    const Launch launch = launch_of(rank, 2, address);
    if (rank == 1) {
      const BareRank bare(launch, 1);
      const Fd socket = speak(bare.endpoints(0).front(), bare.hello(0));
      CHECK(first_kind(socket) == 2);
      const std::uint64_t now = now_ns();
      send_all(socket, wire::encode(kPulse, ""), Deadline(kSoonS));
      silent.set_value(now);
      CHECK(first_kind(socket, kPulse) == kGivenUp);
      return;
    }
    HostRank one(launch, on_host(0, kShortTimeoutS));
    std::promise<std::pair<std::string, std::uint64_t>> death;
    one.mesh.on_death([&](int, std::string why) { death.set_value({std::move(why), now_ns()}); });
    one.mesh.start();
    const std::uint64_t silent_ns = silent.get_future().get();
    const auto [why, dead_ns] = death.get_future().get();
    CHECK(why.find("has not answered for 0.8 s") != std::string::npos);
    CHECK(dead_ns - silent_ns > 700'000'000);
    CHECK(dead_ns - silent_ns < 3'000'000'000);  // 0.85 s on an idle machine
    CHECK_THROWS(one.mesh.request(1, "who", "", Fd(), Deadline(kSoonS)), "who: rank 1 (pid ");
  });
}

// --- ranks that are processes ---

CASE(a_kill_on_another_host_is_noticed_by_its_connection) {
  const std::string address = fresh_name();
  const pid_t victim = spawn_rank("killed", launch_of(1, 2, address));
  HostRank one(launch_of(0, 2, address), on_host(0));
  std::promise<std::string> death;
  one.mesh.on_death([&](int, std::string why) { death.set_value(std::move(why)); });
  one.mesh.start();
  CHECK(one.mesh.pid(1) == victim);
  one.mesh.all_gather("start", "", Deadline(kSoonS));
  const std::uint64_t killed_ns = now_ns();
  CHECK_THROWS(one.mesh.request(1, "die", "", Fd(), Deadline(kSoonS)), "died");
  CHECK(death.get_future().get() == concat("rank 1 (pid ", victim, " on node1) died: its connection closed"));
  CHECK(now_ns() - killed_ns < 5'000'000'000);  // about 1 ms on an idle machine; far below the limit of silence, 16 s
  CHECK(wait_for_exit(victim) == 128 + SIGKILL);
}

CASE(a_process_that_is_stopped_is_dead_and_learns_it_when_it_goes_on) {
  const std::string address = fresh_name();
  const pid_t victim = spawn_rank("stopped", launch_of(1, 2, address));
  HostRank one(launch_of(0, 2, address), on_host(0, kShortTimeoutS));
  std::promise<std::uint64_t> death;
  one.mesh.on_death([&](int, const std::string&) { death.set_value(now_ns()); });
  one.mesh.start();
  one.mesh.all_gather("start", "", Deadline(kSoonS));
  const std::uint64_t stopped_ns = now_ns();
  ::kill(victim, SIGSTOP);
  CHECK(death.get_future().get() - stopped_ns < 5'000'000'000);  // 0.6 to 0.85 s on an idle machine
  ::kill(victim, SIGCONT);
  CHECK(wait_for_exit(victim) == 0);
}

// Where the ranks of that job tell that they are in their world.
Endpoint meeting_of(const Launch& launch) { return {launch.address + "-up", 0}; }

CASE(a_job_of_several_hosts_that_is_stopped_and_continued_lives) {
  const std::string address = fresh_name();
  Endpoint meeting = meeting_of(launch_of(0, 3, address));
  const Fd listener = listen_at(meeting, ListenScope::this_host);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.push_back(spawn_rank("lives", launch_of(rank, 3, address)));
  for (std::size_t up = 0; up < ranks.size(); ++up) {
    CHECK(wait_for(listener, POLLIN, Deadline(kSoonS)));
    CHECK(accept_one(listener).valid());
  }
  for (const pid_t one : ranks) ::kill(one, SIGSTOP);
  const timespec longer_than_the_limit{1, 500'000'000};
  ::nanosleep(&longer_than_the_limit, nullptr);
  for (const pid_t one : ranks) ::kill(one, SIGCONT);
  for (const pid_t one : ranks) CHECK(wait_for_exit(one) == 0);
}

// --- the interfaces ---

const std::vector<InterfaceAddress> kInterfaces = {{"lo", "127.0.0.1", true},  {"eth0", "10.0.0.7", false},
                                                   {"ib0", "10.9.0.7", false}, {"docker0", "172.17.0.1", false},
                                                   {"lo", "::1", true},        {"ib0", "fd00::7", false}};
using Numbers = std::vector<std::string>;

CASE(the_interface_that_reaches_the_store_is_taken_and_all_of_them_on_rank_0s_host) {
  CHECK((numbers_to_reach("auto", "fd00::7", kInterfaces) == Numbers{"fd00::7", "10.9.0.7"}));
  const Numbers all = {"10.0.0.7", "10.9.0.7", "172.17.0.1", "fd00::7", "127.0.0.1", "::1"};
  for (const std::string local : {"127.0.0.1", "", "fe80::7%ib0"})
    CHECK(numbers_to_reach("auto", local, kInterfaces) == all);
}

CASE(named_interfaces_are_taken_in_that_order_and_others_refused_by_name) {
  CHECK((numbers_to_reach("ib0,eth0", "10.0.0.7", kInterfaces) == Numbers{"10.9.0.7", "fd00::7", "10.0.0.7"}));
  CHECK_THROWS(numbers_to_reach("ib1", "", kInterfaces),
               "network_interface=ib1: this host has no interface ib1 with an address; it has lo, eth0, ib0, docker0");
  CHECK_THROWS(numbers_to_reach(",", "", kInterfaces), "names no interface");
}

CASE(a_peers_nearest_endpoint_is_tried_first) {
  std::vector<Endpoint> endpoints = {{"172.17.0.1", 1}, {"fd00::9", 2}, {"10.0.1.9", 3}, {"10.0.0.9", 4}};
  nearest_first(endpoints, "10.0.0.7");
  CHECK(endpoints[0].port == 4 && endpoints[1].port == 3 && endpoints[2].port == 1 && endpoints[3].port == 2);
  nearest_first(endpoints, "fd00::7");
  CHECK(endpoints[0].port == 2);
}

// --- the process ranks ---

void killed() {
  const Launch launch = launch_from_environment();
  HostRank one(launch, on_host(launch.rank));
  one.mesh.on("die", [](int, const std::string&, Fd) {
    ::raise(SIGKILL);
    return std::string();
  });
  one.mesh.start();
  one.mesh.all_gather("start", "", Deadline(kSoonS));
  one.mesh.all_gather("never", "", Deadline(kSoonS));
}

void stopped() {
  const Launch launch = launch_from_environment();
  HostRank one(launch, on_host(launch.rank, kShortTimeoutS));
  one.mesh.start();
  one.mesh.all_gather("start", "", Deadline(kSoonS));
  CHECK_THROWS(one.mesh.all_gather("never", "", Deadline(kSoonS)), "gave this rank up");
}

void lives() {
  const Launch launch = launch_from_environment();
  HostRank one(launch, on_host(launch.rank, kShortTimeoutS));
  std::promise<std::string> died;
  std::future<std::string> death = died.get_future();
  one.mesh.on_death([&](int, std::string why) { died.set_value(std::move(why)); });
  one.mesh.start();
  one.mesh.all_gather("start", "", Deadline(kSoonS));
  std::string why;
  CHECK(connect_once(meeting_of(launch), Deadline(kSoonS), why).valid());
  CHECK(passes_without(death, 3.5 * kShortTimeoutS));  // of which it stands still for 1.5 s
  one.mesh.all_gather("end", "", Deadline(kSoonS));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--rank") == 0)
    return run_role({{"killed", killed}, {"stopped", stopped}, {"lives", lives}}, argv[2]);
  return onstream::test::run(argc, argv);
}
