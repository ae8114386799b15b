// The network interfaces of this host, as far as ranks of other hosts may reach it by them.
#pragma once

#include <string>
#include <vector>

#include "onstream/bootstrap/socket.hpp"

namespace onstream {

struct InterfaceAddress {
  std::string interface;  // "eth0"
  std::string number;     // "10.0.0.7", "fd00::7"
  bool loopback = false;
};

// Of the interfaces that are up. Without those of one link alone (fe80::...), which mean nothing at another host.
std::vector<InterfaceAddress> interface_addresses();

// Where ranks of other hosts may reach this one, the likeliest first, of the host's `all`. `wanted` is parameter
// network_interface; `local` is this end of the connection to rank 0's store, "" if that is no TCP connection. "auto"
// takes the interface of `local`. If that is the loopback, the rank is on rank 0's host, which may be known by another
// number elsewhere: then all interfaces, the loopback last. Throws invalid_argument for an interface that the host does
// not have, naming those that it has.
std::vector<std::string> numbers_to_reach(const std::string& wanted, const std::string& local,
                                          const std::vector<InterfaceAddress>& all);

// Puts the endpoints in the order in which a rank with the address `local` tries them: first those of the networks next
// to it, by the bits that both begin with.
void nearest_first(std::vector<Endpoint>& endpoints, const std::string& local);

}  // namespace onstream
