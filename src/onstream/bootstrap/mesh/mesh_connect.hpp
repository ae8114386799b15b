// Connecting the mesh: every rank listens, tells its address through the store, and connects to the ranks below its
// own; both ends prove that they know the job's secret.
//
// Ranks of one host meet at names in the abstract Unix-domain namespace, those of different hosts by TCP. Strangers may
// connect to both: they are bounded in number, bytes and time, and delay nobody.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/bootstrap/host.hpp"
#include "onstream/bootstrap/mesh/mesh_link.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/launch.hpp"

namespace onstream {

struct ConnectedPeer {
  MeshLink link;  // closed for oneself
  int pid = 0;
  std::string host_name;
  bool same_host = true;
  int host = 0;  // the first rank of its host
  Fd process;    // a pidfd: readable when the process has ended; invalid where the kernel, a pid namespace or another
                 // host forbids it
};

struct MeshOptions {
  std::string network_interface = "auto";
  double network_timeout_s = 2.0;
  std::optional<Host> host;  // for tests, which pretend that a machine is several hosts
};

// Collective; blocks. One entry a rank. Throws timeout or aborted naming the ranks that did not come or died.
std::vector<ConnectedPeer> connect_mesh(const Launch& launch, Store& store, const MeshOptions& options,
                                        Deadline deadline);

}  // namespace onstream
