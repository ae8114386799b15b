// Helpers for the tests of the store and the mesh: ranks as threads, each with a launch of its own.
//
// A rank that must die is a process instead: this program started again with `--rank` (processes.hpp).
#pragma once

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "onstream/base/error.hpp"
#include "onstream/bootstrap/mesh/mesh.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/launch.hpp"
#include "support/check.hpp"

namespace onstream::test {

inline std::string fresh_name() { return "unix:onstream-test-" + to_hex(random_bytes(8)); }

inline Launch launch_of(int rank, int size, const std::string& address) {
  Launch launch;
  launch.rank = launch.local_rank = rank;
  launch.size = launch.local_size = size;
  launch.address = address;
  launch.secret = "secret of the test";
  return launch;
}

// Runs body(rank) in `size` threads and rethrows the first exception.
inline void as_ranks(int size, const std::function<void(int)>& body) {
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::async(std::launch::async, body, rank));
  for (std::future<void>& rank : ranks) rank.wait();
  for (std::future<void>& rank : ranks) rank.get();
}

struct MeshRank {
  explicit MeshRank(const Launch& launch) : store(launch, Deadline(kSoonS)), mesh(launch, store, Deadline(kSoonS)) {}
  Store store;
  Mesh mesh;
};

// A mesh of threads: set_up(rank, mesh), start, body(rank, mesh), and all stay until the last is done.
inline void as_mesh(int size, const std::function<void(int, Mesh&)>& set_up,
                    const std::function<void(int, Mesh&)>& body) {
  const std::string address = fresh_name();
  as_ranks(size, [&](int rank) {
    MeshRank one(launch_of(rank, size, address));
    set_up(rank, one.mesh);
    one.mesh.start();
    body(rank, one.mesh);
    one.mesh.all_gather("test/end", "", Deadline(kSoonS));
  });
}

inline void nothing(int, Mesh&) {}

// CHECK_THROWS for a text that is only known at run time.
inline void check_throws(const std::function<void()>& call, const std::string& text) {
  std::string what = "nothing";
  try {
    call();
  } catch (const std::exception& error) {
    what = error.what();
  }
  if (what.find(text) == std::string::npos) failed(__FILE__, __LINE__, "threw '" + what + "', not '" + text + "'");
}

}  // namespace onstream::test
