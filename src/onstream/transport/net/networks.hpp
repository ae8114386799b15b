// The list of networks: adding one touches its folder and network.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onstream/transport/net/network.hpp"

namespace onstream::net {

struct NetworkSettings {
  std::string kind = "auto";  // or one of network_kinds()
  int rank = 0;
  int size = 1;
  std::string secret;  // the job's
  // ucx: parameters network_interface, ucx_library and ucx_wheel.
  std::string interface = "auto";
  std::string library = "auto";
  std::string wheel = "none";
  // sim: networks of one name and one process reach each other.
  std::string name = "job";
  std::uint64_t seed = 1;
};

// Built here or not, in the order of preference.
std::vector<std::string> network_kinds();

// The events must outlive the network. Throws unsupported where the build or this machine lacks the kind, and
// invalid_argument for a kind that is not on the list.
std::unique_ptr<Network> open_network(const NetworkSettings& settings, NetworkEvents& events);

}  // namespace onstream::net
