// The mesh: ranks are threads here, and processes where one of them must die.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <future>
#include <limits>

#include "bootstrap_ranks.hpp"
#include "onstream/base/error.hpp"
#include "onstream/bootstrap/host.hpp"
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

constexpr std::uint64_t kNoticeLimitNs = 5'000'000'000;  // a death is noticed in about 1 ms on an idle machine

CASE(mesh_requests_are_answered) {
  as_mesh(
      4,
      [](int rank, Mesh& mesh) {
        mesh.on("add",
                [rank](int peer, const std::string& payload, Fd) { return concat(payload, '+', peer, '+', rank); });
      },
      [](int rank, Mesh& mesh) {
        for (int peer = 0; peer < 4; ++peer) {
          if (peer == rank) continue;
          CHECK(mesh.request(peer, "add", "x", Fd(), Deadline(kSoonS)) == concat("x+", rank, '+', peer));
          CHECK(mesh.alive(peer));
          CHECK(mesh.pid(peer) == ::getpid());
        }
      });
}

CASE(mesh_handler_errors_travel_to_the_asker) {
  as_mesh(
      2,
      [](int, Mesh& mesh) {
        mesh.on("refuse", [](int, const std::string& payload, Fd) -> std::string {
          fail(ErrorCode::unsupported, "cannot map ", payload);
        });
      },
      [](int rank, Mesh& mesh) {
        try {
          mesh.request(1 - rank, "refuse", "this", Fd(), Deadline(kSoonS));
          CHECK(false);
        } catch (const Error& error) {
          CHECK(error.code() == ErrorCode::unsupported);
          CHECK(std::string(error.what()) == "cannot map this");
        }
        CHECK_THROWS(mesh.request(1 - rank, "unheard of", "", Fd(), Deadline(kSoonS)), "no handler for 'unheard of'");
        CHECK_THROWS(mesh.request(rank, "self", "", Fd(), Deadline(kSoonS)), "to itself");
        CHECK_THROWS(mesh.request(7, "who", "", Fd(), Deadline(kSoonS)), "peer 7 is not a rank of this world of 2");
      });
}

CASE(mesh_passes_file_descriptors_in_order) {
  as_mesh(
      2,
      [](int, Mesh& mesh) {
        mesh.on("read", [](int, const std::string&, Fd fd) {
          CHECK(fd.valid());
          CHECK((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
          std::string text(8, '\0');
          CHECK(::pread(fd.get(), text.data(), text.size(), 0) == 8);
          return text;
        });
        mesh.on("none", [](int, const std::string&, Fd fd) { return std::string(fd.valid() ? "an fd" : "no fd"); });
      },
      [](int rank, Mesh& mesh) {
        for (int i = 0; i < 50; ++i) {
          Fd file(::memfd_create("onstream test", MFD_CLOEXEC));
          const std::string text = concat("text ", 100 + i);
          CHECK(::pwrite(file.get(), text.data(), text.size(), 0) == 8);
          CHECK(mesh.request(1 - rank, "read", std::string(static_cast<std::size_t>(i) * 997, 'p'), std::move(file),
                             Deadline(kSoonS)) == text);
          CHECK(mesh.request(1 - rank, "none", "", Fd(), Deadline(kSoonS)) == "no fd");
        }
      });
}

CASE(mesh_takes_large_payloads_both_ways_and_many_threads_at_once) {
  as_mesh(
      3, [](int, Mesh& mesh) { mesh.on("echo", [](int, std::string payload, Fd) { return payload; }); },
      [](int rank, Mesh& mesh) {
        std::vector<std::future<void>> threads;
        for (int thread = 0; thread < 3; ++thread)
          threads.push_back(std::async(std::launch::async, [&, thread] {
            const std::string payload(std::size_t{3} << 20, static_cast<char>('a' + thread));
            for (int peer = 0; peer < 3; ++peer)
              if (peer != rank) CHECK(mesh.request(peer, "echo", payload, Fd(), Deadline(kSoonS)) == payload);
          }));
        for (auto& thread : threads) thread.get();
      });
}

CASE(mesh_gathers_match_by_topic_and_order) {
  as_mesh(4, nothing, [](int rank, Mesh& mesh) {
    std::vector<std::future<void>> threads;
    for (const char* topic : {"a", "b"})
      threads.push_back(std::async(std::launch::async, [&, topic] {
        for (int i = 0; i < 50; ++i) {
          const auto values = mesh.all_gather(topic, concat(topic, i, '/', rank), Deadline(kSoonS));
          for (int peer = 0; peer < 4; ++peer)
            CHECK(values.at(static_cast<std::size_t>(peer)) == concat(topic, i, '/', peer));
        }
      }));
    for (auto& thread : threads) thread.get();
  });
}

CASE(mesh_timeouts_name_peer_topic_and_absent_ranks) {
  std::atomic<bool> release{false};
  as_mesh(
      3,
      [&](int, Mesh& mesh) {
        mesh.on("stall", [&](int, const std::string&, Fd) {
          const Deadline deadline(kSoonS);
          while (!release && !deadline.passed()) std::this_thread::yield();
          return std::string();
        });
      },
      [&](int rank, Mesh& mesh) {
        if (rank == 0) {
          CHECK_THROWS(mesh.request(1, "stall", "", Fd(), Deadline(0.1)), "did not answer for stall within 0.");
          CHECK_THROWS(mesh.all_gather("lonely", "", Deadline(0.1)), "rank 1 (pid ");
          release = true;
        }
      });
}

CASE(a_world_that_fails_ends_requests_and_gathers_under_way_and_later_ones) {
  const std::string address = fresh_name();
  std::promise<void> asked;
  std::promise<void> ends;
  const std::shared_future<void> done = ends.get_future().share();
  as_ranks(2, [&](int rank) {
    MeshRank one(launch_of(rank, 2, address));
    one.mesh.on("stall", [&](int, const std::string&, Fd) {
      asked.set_value();
      (void)done.wait_for(std::chrono::duration<double>(kSoonS));
      return std::string();
    });
    one.mesh.start();
    if (rank == 1) return (void)done.wait_for(std::chrono::duration<double>(kSoonS));
    const std::uint64_t start_ns = now_ns();
    const auto request = [&] {
      check_throws([&] { one.mesh.request(1, "stall", "", Fd(), Deadline(kSoonS)); }, "stall: the cat");
    };
    const auto gather = [&] {
      check_throws([&] { one.mesh.all_gather("lonely", "", Deadline(kSoonS)); }, "lonely: the cat");
    };
    auto requesting = std::async(std::launch::async, request);
    auto gathering = std::async(std::launch::async, gather);
    asked.get_future().wait_for(std::chrono::duration<double>(kSoonS));
    one.mesh.fail_all("the cat");
    requesting.get();
    gathering.get();
    request();
    gather();
    CHECK(now_ns() - start_ns < static_cast<std::uint64_t>(kSoonS / 2 * 1e9));
    ends.set_value();
  });
}

CASE(mesh_blocking_calls_from_a_handler_are_refused) {
  as_mesh(
      2,
      [](int rank, Mesh& mesh) {
        mesh.on("nest", [rank, &mesh](int peer, const std::string&, Fd) {
          return mesh.request(rank == 0 ? peer : 0, "nest", "", Fd(), Deadline(kSoonS));
        });
      },
      [](int rank, Mesh& mesh) {
        CHECK_THROWS(mesh.request(1 - rank, "nest", "", Fd(), Deadline(kSoonS)), "must not be called from a handler");
      });
}

CASE(mesh_notifications_arrive_in_order_before_a_later_request) {
  std::array<std::string, 2> heard;
  as_mesh(
      2,
      [&](int rank, Mesh& mesh) {
        mesh.on("note", [&heard, rank](int, const std::string& payload, Fd) {
          heard.at(static_cast<std::size_t>(rank)) += payload;
          return std::string();
        });
        mesh.on("heard",
                [&heard, rank](int, const std::string&, Fd) { return heard.at(static_cast<std::size_t>(rank)); });
      },
      [](int rank, Mesh& mesh) {
        for (const char* note : {"a", "b", "c"}) mesh.notify(1 - rank, "note", note);
        CHECK(mesh.request(1 - rank, "heard", "", Fd(), Deadline(kSoonS)) == "abc");
      });
}

CASE(mesh_goodbye_is_not_a_death) {
  std::atomic<int> deaths{0};
  // Often: a peer hangs up as soon as it has read the goodbye, while the other's thread still runs.
  for (int i = 0; i < 200; ++i) {
    const std::string address = fresh_name();
    as_ranks(2, [&](int rank) {
      MeshRank one(launch_of(rank, 2, address));
      one.mesh.on_death([&](int, const std::string&) { ++deaths; });
      one.mesh.start();
      one.mesh.all_gather("start", "", Deadline(kSoonS));
      if (rank == 1) return;
      CHECK_THROWS(one.mesh.all_gather("next", "", Deadline(kSoonS)), "left the world");
      CHECK(!one.mesh.alive(1));
      CHECK_THROWS(one.mesh.request(1, "hello", "", Fd(), Deadline(kSoonS)), "hello: rank 1 (pid");
      one.mesh.notify(1, "nobody", "");
    });
  }
  CHECK(deaths == 0);
}

CASE(mesh_that_was_never_started_says_goodbye_too) {
  const std::string address = fresh_name();
  as_ranks(2, [&](int rank) {
    MeshRank one(launch_of(rank, 2, address));
    if (rank == 1) return;
    one.mesh.start();
    CHECK_THROWS(one.mesh.all_gather("start", "", Deadline(kSoonS)), "left the world");
  });
}

CASE(mesh_notices_a_kill_and_wakes_every_waiter) {
  const std::string address = fresh_name();
  const pid_t witness = spawn_rank("mesh_witness", launch_of(1, 3, address));
  const pid_t victim = spawn_rank("mesh_victim", launch_of(2, 3, address));
  MeshRank one(launch_of(0, 3, address));
  std::promise<std::pair<std::string, std::uint64_t>> death;
  one.mesh.on_death([&](int, std::string why) { death.set_value({std::move(why), now_ns()}); });
  one.mesh.start();
  CHECK(one.mesh.pid(2) == victim);
  one.mesh.all_gather("start", "", Deadline(kSoonS));
  std::future<void> gather = std::async(std::launch::async, [&] {
    check_throws([&] { one.mesh.all_gather("next", "", Deadline(kSoonS)); }, concat("rank 2 (pid ", victim, ") died"));
  });
  const std::uint64_t killed_ns = now_ns();
  CHECK_THROWS(one.mesh.request(2, "die", "", Fd(), Deadline(kSoonS)), "died");
  gather.get();
  const auto [why, noticed_ns] = death.get_future().get();
  CHECK(why.starts_with(concat("rank 2 (pid ", victim, ") died: its ")));
  CHECK(noticed_ns - killed_ns < kNoticeLimitNs);
  const auto ask = [&] { return std::stoull(one.mesh.request(1, "when", "", Fd(), Deadline(kSoonS))); };
  std::uint64_t witnessed_ns = ask();
  while (witnessed_ns == std::numeric_limits<std::uint64_t>::max()) witnessed_ns = ask();  // it need not know first
  CHECK(witnessed_ns - killed_ns < kNoticeLimitNs);
  CHECK(!one.mesh.alive(2));
  CHECK(one.mesh.alive(1));
  CHECK(wait_for_exit(victim) == 128 + SIGKILL);
  one.mesh.notify(1, "end", "");
  CHECK(wait_for_exit(witness) == 0);
}

CASE(mesh_notices_a_death_though_a_child_of_the_dead_holds_its_sockets) {
  const std::string address = fresh_name();
  const pid_t victim = spawn_rank("mesh_forks", launch_of(1, 2, address));
  MeshRank one(launch_of(0, 2, address));
  one.mesh.start();
  const pid_t child = std::stoi(one.mesh.all_gather("child", "", Deadline(kSoonS)).at(1));
  ::kill(victim, SIGKILL);
  CHECK_THROWS(one.mesh.all_gather("next", "", Deadline(kSoonS)), "died");
  ::kill(child, SIGKILL);
  CHECK(wait_for_exit(victim) == 128 + SIGKILL);
}

CASE(a_rank_that_dies_while_the_mesh_connects_is_named_at_once) {
  const std::string address = fresh_name();
  const pid_t victim = spawn_rank("address_then_die", launch_of(1, 2, address));
  const Launch launch = launch_of(0, 2, address);
  Store store(launch, Deadline(kSoonS));
  check_throws([&] { Mesh(launch, store, Deadline(kSoonS)); }, concat("rank 1 (pid ", victim, ") died"));
  CHECK(wait_for_exit(victim) == 128 + SIGKILL);
}

// The keys and proofs of a mesh, for ranks that are no more than sockets.
constexpr const char* kStart = "the start of the world";

std::string published(const std::string& name, const std::string& nonce) {
  return pack(MeshAddress{name, nonce, static_cast<int>(::getpid()), this_host()});
}

std::string proof(const Launch& launch, int to, const std::string& nonce, const MeshAddress& there) {
  wire::Packer text;
  text.text("onstream mesh").u32(static_cast<std::uint32_t>(launch.rank)).u32(static_cast<std::uint32_t>(to));
  return hmac_sha256(launch.secret, text.text(nonce).text(there.nonce).text(there.name).body());
}

// Connects to rank `to`, and says hello.
Fd greet(const Launch& launch, int to, const std::string& nonce, const std::string& address) {
  const MeshAddress there = unpack_address(address);
  const Endpoint endpoint{there.name, 0};
  std::string why;
  Fd socket = connect_once(endpoint, Deadline(kSoonS), why);
  CHECK(socket.valid());
  wire::Packer hello;
  hello.u32(static_cast<std::uint32_t>(launch.rank)).text(proof(launch, to, nonce, there));
  send_all(socket, wire::encode(1, hello.body()), Deadline(kSoonS));
  return socket;
}

// The kind of the first frame that comes; -1 if the connection ends before.
int first_kind(const Fd& socket) {
  wire::FrameReader reader;
  while (wait_for(socket, POLLIN, Deadline(kSoonS))) {
    std::string bytes;
    const Received received = receive_some(socket, bytes);
    reader.feed(bytes);
    if (const std::optional<wire::Frame> frame = reader.next()) return frame->kind;
    if (received == Received::end) break;
  }
  return -1;
}

// Waits until rank 1 has joined the gather, which all others but this one keep from its end.
void await_rank_1(Store& store) {
  const Deadline deadline(kSoonS);
  std::string absent;  // "ranks 0, 3 of 72 did not come to ...", unless the store was too slow to name them
  const auto names_others = [&] { return absent.starts_with("ranks ") && absent.find(" 1,") == std::string::npos; };
  while (!names_others() && !deadline.passed()) {
    try {
      store.all_gather(kStart, "", Deadline(0.02));
    } catch (const Error& error) {
      absent = error.what();
    }
  }
  CHECK(names_others() && absent.find("did not come to") != std::string::npos);
}

CASE(ranks_that_all_connect_before_one_looks_are_all_taken) {
  constexpr int kSize = 72;
  const std::string address = fresh_name();
  const pid_t late = spawn_rank("mesh_looks", launch_of(1, kSize, address));
  std::promise<void> stopped;
  const std::shared_future<void> is_stopped = stopped.get_future().share();
  std::atomic<int> greeted{0};
  as_ranks(kSize, [&](int rank) {
    const Launch launch = launch_of(rank, kSize, address);
    if (rank == 0) return (void)MeshRank(launch);
    if (rank == 1) return;
    Store store(launch, Deadline(kSoonS));
    if (rank == 2) {
      await_rank_1(store);
      ::kill(late, SIGSTOP);
      int status = 0;
      CHECK(::waitpid(late, &status, WUNTRACED) == late && WIFSTOPPED(status));
      stopped.set_value();
    }
    (void)is_stopped.wait_for(std::chrono::duration<double>(kSoonS));
    const std::string nonce = random_bytes(32);
    const auto addresses = store.all_gather(kStart, published(fresh_name(), nonce), Deadline(kSoonS));
    const Fd to_0 = greet(launch, 0, nonce, addresses.at(0));
    const Fd to_1 = greet(launch, 1, nonce, addresses.at(1));
    if (++greeted == kSize - 2) ::kill(late, SIGCONT);
    CHECK(first_kind(to_1) == 2);  // accepted
    CHECK(first_kind(to_0) == 2);
  });
  CHECK(wait_for_exit(late) == 0);
}

CASE(why_a_rank_gave_up_while_the_ranks_connected_is_told_by_the_others) {
  const std::string address = fresh_name();
  as_ranks(3, [&](int rank) {
    const Launch launch = launch_of(rank, 3, address);
    Store store(launch, Deadline(kSoonS));
    if (rank == 0) {
      store.tell_failure("no memory for the cat");
      return (void)store.all_gather(kStart, published(fresh_name(), random_bytes(32)), Deadline(kSoonS));
    }
    const std::string me = concat(" (pid ", ::getpid(), ")");
    check_throws([&] { Mesh(launch, store, Deadline(kSoonS)); },
                 concat("rank 0", me, " died, or gave up, while the ranks connected; the first failure was of rank 0",
                        me, ": no memory for the cat"));
  });
}

CASE(why_a_rank_gave_up_before_the_ranks_connected_is_told_by_the_others) {
  const std::string address = fresh_name();
  as_ranks(2, [&](int rank) {
    const Launch launch = launch_of(rank, 2, address);
    Store store(launch, Deadline(kSoonS));
    if (rank == 0) store.set("here", "");  // a rank that comes after one has left meets its next world, if any
    if (rank == 1) {
      (void)store.get("here", Deadline(kSoonS));
      return store.tell_failure("no GPU is here");
    }
    check_throws([&] { Mesh(launch, store, Deadline(kSoonS)); },
                 concat("the first failure was of rank 1 (pid ", ::getpid(), "): no GPU is here"));
  });
}

CASE(mesh_of_one_rank_is_trivial_and_ticks) {
  Store store(Launch{}, Deadline(kSoonS));
  Mesh mesh(Launch{}, store, Deadline(kSoonS));
  std::promise<void> ticked;
  std::atomic<int> ticks{0};
  mesh.on_tick([&] {
    if (++ticks == 2) ticked.set_value();
  });
  mesh.start();
  CHECK(mesh.all_gather("topic", "me", Deadline(0)) == std::vector<std::string>{"me"});
  CHECK(mesh.pid(0) == ::getpid() && mesh.alive(0));
  CHECK(ticked.get_future().wait_for(std::chrono::duration<double>(kSoonS)) == std::future_status::ready);
}

CASE(no_socket_survives_exec) {
  as_mesh(3, nothing, [](int, Mesh&) {
    for (int fd = 3; fd < 256; ++fd) {
      const int flags = ::fcntl(fd, F_GETFD);
      std::array<char, 64> target{};
      if (flags < 0 || ::readlink(concat("/proc/self/fd/", fd).c_str(), target.data(), target.size() - 1) < 0) continue;
      if (std::string(target.data()).starts_with("socket:")) CHECK((flags & FD_CLOEXEC) != 0);
    }
  });
}

CASE(meshes_of_sixteen_ranks_connect_again_and_again) {
  for (int i = 0; i < 3; ++i)
    as_mesh(16, nothing, [](int rank, Mesh& mesh) {
      CHECK(mesh.all_gather("rank", concat(rank), Deadline(kSoonS)).at(15) == "15");
    });
}

// --- the process ranks ---

void mesh_victim() {
  MeshRank one(launch_from_environment());
  one.mesh.on("die", [](int, const std::string&, Fd) {
    ::raise(SIGKILL);
    return std::string();
  });
  one.mesh.start();
  one.mesh.all_gather("start", "", Deadline(kSoonS));
  one.mesh.all_gather("never", "", Deadline(kSoonS));
}

void mesh_witness() {
  MeshRank one(launch_from_environment());
  std::promise<std::uint64_t> death;
  std::shared_future<std::uint64_t> died_ns = death.get_future().share();
  std::promise<void> end;
  one.mesh.on_death([&](int peer, const std::string&) {
    if (peer == 2) death.set_value(now_ns());
  });
  one.mesh.on("when", [&](int, const std::string&, Fd) {
    const bool known = died_ns.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    return known ? concat(died_ns.get()) : std::string("18446744073709551615");
  });
  one.mesh.on("end", [&](int, const std::string&, Fd) {
    end.set_value();
    return std::string();
  });
  one.mesh.start();
  one.mesh.all_gather("start", "", Deadline(kSoonS));
  CHECK_THROWS(one.mesh.all_gather("next", "", Deadline(kSoonS)), "died");
  CHECK(end.get_future().wait_for(std::chrono::duration<double>(kSoonS)) == std::future_status::ready);
}

void mesh_forks() {
  MeshRank one(launch_from_environment());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::pause();
    ::_exit(0);
  }
  one.mesh.start();
  one.mesh.all_gather("child", concat(child), Deadline(kSoonS));
  CHECK_THROWS(one.mesh.all_gather("never", "", Deadline(kSoonS)), "");
}

void mesh_looks() { const MeshRank one(launch_from_environment()); }

// Publishes the address as a mesh does, but does not live long enough to connect.
void address_then_die() {
  Store store(launch_from_environment(), Deadline(kSoonS));
  store.all_gather(kStart, published(fresh_name(), random_bytes(32)), Deadline(kSoonS));
  ::raise(SIGKILL);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--rank") == 0) {
    return run_role({{"mesh_victim", mesh_victim},
                     {"mesh_witness", mesh_witness},
                     {"mesh_forks", mesh_forks},
                     {"mesh_looks", mesh_looks},
                     {"address_then_die", address_then_die}},
                    argv[2]);
  }
  return onstream::test::run(argc, argv);
}
