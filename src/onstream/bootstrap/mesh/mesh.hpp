// The mesh: a connection between every two ranks, for control messages, and the thread that listens to them all. Ranks
// of one host are connected by Unix-domain sockets, which carry file descriptors too, ranks of different hosts by TCP.
//
// Unix-domain addresses are random names in the abstract namespace, so nothing named is left behind; a connection
// starts with proof of the job's secret. A connection that ends without goodbye is a death, as is the silence of a peer
// on another host, which otherwise sends at least its pulse. Handlers run in the mesh's own thread: they must not block
// on another rank. Nothing here is on the way of an op.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/bootstrap/mesh/mesh_connect.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/launch.hpp"

namespace onstream {

class Mesh {
 public:
  // A request handler's answer.
  using Answer = std::string;
  using Handler = std::function<Answer(int peer, std::string payload, Fd fd)>;
  using OnDeath = std::function<void(int peer, std::string why)>;

  // Collective. Connects all ranks; throws timeout naming the ranks that did not come.
  Mesh(const Launch& launch, Store& store, Deadline deadline, const MeshOptions& options = {});
  // Says goodbye to all peers and joins the thread.
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Before start(): the handlers for requests of a topic, for a peer's death or leaving, and the one called about every
  // 50 ms.
  void on(std::string topic, Handler handler);
  void on_death(OnDeath function);
  // When a peer has said goodbye. All that it sent before has been heard.
  void on_leave(OnDeath function);
  void on_tick(std::function<void()> function);
  // Asked in a thread of its own, about every tenth of a second, whether this rank may tell peers on other hosts that
  // it lives. False withholds the pulse, and the peers take this rank for dead: for a rank whose network proxy has
  // stopped. Needed until the mesh ends; not asked in a world of one host.
  void on_pulse(std::function<bool()> function);
  void start();

  // Sends a request and blocks for its answer. Throws timeout, or aborted when the peer is dead, naming peer and topic,
  // and invalid_argument for a file descriptor to a peer on another host.
  // An Error thrown by the peer's handler is thrown here with its text. Any thread but the mesh's own.
  std::string request(int peer, std::string_view topic, std::string_view payload, Fd fd, Deadline deadline);
  // Sends without waiting for an answer. Never throws for a dead peer. Any thread.
  void notify(int peer, std::string_view topic, std::string_view payload);
  // One value from every rank, in rank order. Collective: calls match by topic and by order among calls of that topic.
  // Throws timeout naming the ranks that did not come, or aborted naming the dead.
  std::vector<std::string> all_gather(std::string_view topic, std::string_view mine, Deadline deadline);

  // The world has failed: requests and gathers that wait, now or later, end at once as aborted, with this reason. The
  // mesh itself goes on: notices still travel. Any thread.
  void fail_all(const std::string& reason);

  bool alive(int peer) const;
  // Process id, as the kernel gave it to us (SO_PEERCRED) or as the peer on another host told it.
  int pid(int peer) const;
  // Whether the peer is on this rank's host, so that it can be sent file descriptors; of the rank itself too.
  bool same_host(int peer) const;
  // Ranks of one host have one number: that of the first of them.
  int host_of(int peer) const;
  // As the peer's host calls itself.
  const std::string& host_name(int peer) const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace onstream
