#include "onstream/transport/net/network.hpp"

#include "onstream/base/error.hpp"
#include "onstream/transport/net/networks.hpp"
#include "onstream/transport/net/sim.hpp"

#ifdef ONSTREAM_WITH_UCX
#include "onstream/transport/net/ucx/network.hpp"
#endif

namespace onstream::net {
namespace {

#ifdef ONSTREAM_WITH_UCX
std::unique_ptr<Network> open_ucx(const NetworkSettings& settings, NetworkEvents& events) {
  const UcxSettings ours{.rank = settings.rank,
                         .size = settings.size,
                         .secret = settings.secret,
                         .interface = settings.interface,
                         .places = {settings.library, settings.wheel}};
  return std::make_unique<UcxNetwork>(ours, events);
}
#else
std::unique_ptr<Network> open_ucx(const NetworkSettings&, NetworkEvents&) {
  fail(ErrorCode::unsupported,
       "this onstream was built without UCX's headers, so it reaches no other host. Build it again after "
       "`pip install libucx-cu13`.");
}
#endif

std::unique_ptr<Network> open_sim(const NetworkSettings& settings, NetworkEvents& events) {
  return SimNetworks::named(settings.name, {.seed = settings.seed})->open(settings.rank, settings.secret, events);
}

struct NetworkRow {
  const char* kind;
  std::unique_ptr<Network> (*open)(const NetworkSettings& settings, NetworkEvents& events);
};

// The first is taken for auto.
constexpr NetworkRow kNetworks[] = {{"ucx", &open_ucx}, {"sim", &open_sim}};

}  // namespace

std::vector<std::string> network_kinds() {
  std::vector<std::string> kinds;
  for (const NetworkRow& row : kNetworks) kinds.emplace_back(row.kind);
  return kinds;
}

std::unique_ptr<Network> open_network(const NetworkSettings& settings, NetworkEvents& events) {
  require(settings.rank >= 0 && settings.rank < settings.size, "rank ", settings.rank, " of ", settings.size,
          " has no place in a network");
  for (const NetworkRow& row : kNetworks)
    if (settings.kind == row.kind || settings.kind == "auto") return row.open(settings, events);
  fail(ErrorCode::invalid_argument, "the network '", settings.kind, "' is none of: auto", listed(network_kinds()));
}

}  // namespace onstream::net
