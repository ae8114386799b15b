// How the ranks of a mesh name themselves to each other, and prove that they know the job's secret.
//
// Addresses travel through the store, whose connections have proved the secret. All of an address is numbers and names
// of the kernel: nothing has to be resolved where it arrives.
#pragma once

#include <string>
#include <vector>

#include "onstream/bootstrap/host.hpp"
#include "onstream/bootstrap/socket.hpp"

namespace onstream {

struct MeshAddress {
  std::string name;   // of a Unix-domain socket, for the ranks of the same host
  std::string nonce;  // fresh in every mesh, known only to those in the store
  int pid = 0;
  Host host;
};

std::string pack(const MeshAddress& address);
MeshAddress unpack_address(const std::string& text);

// Where a rank listens for those of other hosts.
std::string pack(const std::vector<Endpoint>& endpoints);
std::vector<Endpoint> unpack_endpoints(const std::string& text);

// One end of a connection of the mesh.
struct MeshEnd {
  int rank = -1;
  const MeshAddress& address;
};

// The proof that `from` gives to `to` over a connection to this endpoint. With both nonces it is good for one mesh, and
// with the endpoint for one listener: a stranger that listens at a peer's number cannot use it elsewhere.
std::string prove(const std::string& secret, const MeshEnd& from, const MeshEnd& to, const Endpoint& endpoint);

}  // namespace onstream
