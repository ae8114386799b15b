// How the links of a mesh come to be: every rank listens under a random abstract name, the names meet in the store,
// each rank connects to the lower ones and is connected to by the higher ones; both ends prove the secret and are the
// same user.
#pragma once

#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/bootstrap/mesh/mesh_link.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/launch.hpp"

namespace onstream {

struct ConnectedPeer {
  MeshLink link;  // closed for oneself
  int pid = 0;
  Fd process;  // a pidfd: readable when the process has ended; invalid where the kernel or a pid namespace forbids it
};

// Collective; blocks. One entry a rank. Throws timeout or aborted naming the ranks that did not come or died, and
// unsupported naming those on another host.
std::vector<ConnectedPeer> connect_mesh(const Launch& launch, Store& store, Deadline deadline);

}  // namespace onstream
