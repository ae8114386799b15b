// Rules of messages between plain memory on the host device, for test programs whose ranks are threads or processes.
//
// A rule `r` gives the case r_between_threads, where ranks share an address space, and r_between_processes, where one
// rank has only a remote process address for the other's memory. A rule that needs this, or a death, has the second
// case alone.
#pragma once

#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "onstream/transport/fabric.hpp"
#include "support/check.hpp"
#include "support/processes.hpp"
#include "support/ranks.hpp"

namespace onstream::test {

using Bytes = std::vector<unsigned char>;

struct Rule {
  int size;
  Parameters parameters;
  void (*body)(World&);
};

inline std::map<std::string, Rule>& rules() {
  static std::map<std::string, Rule> all;
  return all;
}

struct RuleRegistration {
  RuleRegistration(const char* name, Rule rule) { rules().emplace(name, std::move(rule)); }
};

inline void between_threads(const std::string& name) {
  const Rule& rule = rules().at(name);
  run_ranks(rule.size, rule.parameters, rule.body);
}

// `expected`: the exit status of each rank, if they are not all to end well.
inline void between_processes(const std::string& name, std::vector<int> expected = {}) {
  needs_sight_of_other_processes();
  const Rule& rule = rules().at(name);
  expected.resize(static_cast<std::size_t>(rule.size), 0);
  Launch launch = launch_of(0, rule.size, meeting_place());
  std::vector<pid_t> ranks;
  for (launch.rank = 0; launch.rank < rule.size; ++launch.rank) ranks.push_back(spawn_rank(name, launch));
  std::vector<int> ended;
  for (const pid_t rank : ranks) ended.push_back(wait_for_exit(rank));
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    if (ended[rank] != expected[rank]) {
      failed(__FILE__, __LINE__, concat("rank ", rank, " of ", name, " ended with ", ended[rank]));
    }
  }
}

// Once the ranks have attached to each other, where tests/python/test_dropped_rights.py asks for that: the system lets
// none copy from another's memory any more.
inline void drop_rights_if_asked(World& world) {
  if (std::getenv("ONSTREAM_TEST_DROP_RIGHTS") == nullptr) return;
  for (int peer = 0; peer < world.size(); ++peer) (void)world.fabric()->attach(&world, peer);
  world.barrier();
  constexpr unsigned kNobody = 65534;
  const bool dropped = ::geteuid() == 0
                           ? ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0
                           : ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
  require(dropped, "this rank cannot give up its rights");
  world.barrier();
}

inline int rank_process(const std::string& name) {
  return run_role({{name,
                    [&] {
                      const Rule& rule = rules().at(name);
                      const auto world = World::create(launch_from_environment(), rule.parameters);
                      try {
                        drop_rights_if_asked(*world);
                        rule.body(*world);
                      } catch (const std::exception& error) {
                        world->abort(error.what());
                        throw;
                      }
                    }}},
                  name);
}

#define PROCESS_RULE(name, size, parameters)                                  \
  void name(World& world);                                                    \
  const RuleRegistration rule_of_##name(#name, Rule{size, parameters, name}); \
  CASE(name##_between_processes) { between_processes(#name); }                \
  void name([[maybe_unused]] World& world)
#define RULE(name, size, parameters)                       \
  void name(World& world);                                 \
  CASE(name##_between_threads) { between_threads(#name); } \
  PROCESS_RULE(name, size, parameters)

// Sizes around every threshold: the ring, a chunk of each size, a call of several.
inline const std::vector<std::size_t> kSizes = {
    1, 64, 4096, 4097, 8192, 16384, 16385, 65536, 65537, 262143, 262144, (1 << 20) - 1, (1 << 20) + 4097, 5 << 20};

inline unsigned seed_of(std::size_t bytes, int rank) {
  return static_cast<unsigned>(bytes * 3) + static_cast<unsigned>(rank);
}

inline Parameters host() { return quick("host"); }

inline void check_the_lane_works(World& world, int lane) {
  const Bytes sent = pattern(300000, 77);
  Bytes got(sent.size());
  const int peer = 1 - world.rank();
  const auto receive = world.irecv(got.data(), got.size(), peer, {lane, Path::automatic});
  const auto send = world.isend(sent.data(), sent.size(), peer, {lane, Path::automatic});
  CHECK(world.wait(receive) == Status::ok);
  CHECK(world.wait(send) == Status::ok);
  CHECK(got == sent);
}

inline void ping_pong(World& world) {
  const int peer = 1 - world.rank();
  for (const std::size_t bytes : kSizes) {
    const Bytes out = pattern(bytes, seed_of(bytes, world.rank()));
    Bytes in(bytes);
    std::size_t received = 0;
    if (world.rank() == 0) CHECK(world.send(out.data(), bytes, peer, {}) == Status::ok);
    CHECK(world.recv(in.data(), bytes, peer, {}, &received) == Status::ok);
    if (world.rank() == 1) CHECK(world.send(out.data(), bytes, peer, {}) == Status::ok);
    CHECK(received == bytes);
    CHECK(in == pattern(bytes, seed_of(bytes, peer)));
  }
}

inline int run_rules(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--rank") == 0) return rank_process(argv[2]);
  return run(argc, argv);
}

}  // namespace onstream::test
