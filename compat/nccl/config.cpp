#include "config.hpp"

#include <cstring>

#include "guarded.hpp"
#include "onstream/base/log.hpp"

namespace onstream::nccl {

namespace {

// The options that a program's version of the struct has: one that came later may lie in its padding.
class Reader {
 public:
  explicit Reader(const ncclConfig_t& config) : config_(config) {}

  template <class Value>
  Value get(Value ncclConfig_t::* member, unsigned since, Value undefined) const {
    const auto* const at = reinterpret_cast<const char*>(&(config_.*member));
    const auto end = static_cast<std::size_t>(at - reinterpret_cast<const char*>(&config_)) + sizeof(Value);
    return end <= config_.size && config_.version >= since ? config_.*member : undefined;
  }

  // An option of whole numbers from `least` to `most`; nothing where it was not set.
  std::optional<int> number(const char* name, int ncclConfig_t::* member, unsigned since, int least, int most) const {
    const int value = get(member, since, NCCL_CONFIG_UNDEF_INT);
    if (value == NCCL_CONFIG_UNDEF_INT) return std::nullopt;
    demand(value >= least && value <= most, "the option ", name, " is ", value, ", but may be ", least, " to ", most);
    return value;
  }

  // Options of a newer version, unknown here, must not be set.
  void refuse_newer() const {
    const auto* const words = reinterpret_cast<const char*>(&config_);
    for (std::size_t at = sizeof(ncclConfig_t); at + sizeof(int) <= config_.size; at += sizeof(int)) {
      int value = 0;
      std::memcpy(&value, words + at, sizeof value);
      if (value == NCCL_CONFIG_UNDEF_INT || value == 0) continue;
      refuse(ncclInvalidUsage, "the config sets an option at byte ", at, " to ", value, "; only those up to byte ",
             sizeof(ncclConfig_t), " are known (those of NCCL 2.28)");
    }
  }

 private:
  const ncclConfig_t& config_;
};

constexpr unsigned version(unsigned minor) { return 20000 + minor * 100; }
constexpr std::size_t kLeastSize = offsetof(ncclConfig_t, blocking) + sizeof(int);
constexpr std::size_t kMostSize = 4096;
constexpr int kMany = INT_MAX;

// A program that leaves multiprocessors to its own kernels alone counts on it.
void tell_policy(int policy) {
  log_once(LogLevel::warn, "nccl CTAPolicy", "the option CTAPolicy is ",
           policy == NCCL_CTA_POLICY_ZERO ? "NCCL_CTA_POLICY_ZERO" : "NCCL_CTA_POLICY_EFFICIENCY",
           ", which has no effect: collectives are kernels here; maxCTAs says of how many blocks at most");
}

void check_hints(const Reader& reader) {
  const auto most = reader.number("maxCTAs", &ncclConfig_t::maxCTAs, version(17), 1, kMany);
  const auto least = reader.number("minCTAs", &ncclConfig_t::minCTAs, version(17), 1, kMany);
  demand(!least || !most || *least <= *most, "the option minCTAs is ", least.value_or(0),
         ", which is more than maxCTAs, ", most.value_or(0));
  reader.number("cgaClusterSize", &ncclConfig_t::cgaClusterSize, version(17), 0, kMany);
  reader.number("splitShare", &ncclConfig_t::splitShare, version(18), 0, 1);
  reader.number("trafficClass", &ncclConfig_t::trafficClass, version(25), 0, kMany);
  reader.number("collnetEnable", &ncclConfig_t::collnetEnable, version(27), 0, 1);
  const auto policy =
      reader.number("CTAPolicy", &ncclConfig_t::CTAPolicy, version(27), NCCL_CTA_POLICY_DEFAULT, NCCL_CTA_POLICY_ZERO);
  if (policy.value_or(NCCL_CTA_POLICY_DEFAULT) != NCCL_CTA_POLICY_DEFAULT) tell_policy(*policy);
  reader.number("shrinkShare", &ncclConfig_t::shrinkShare, version(27), 0, 1);
  reader.number("nvlsCTAs", &ncclConfig_t::nvlsCTAs, version(27), 1, kMany);
  reader.number("nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, version(28), 1, kMany);
  reader.number("nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, version(28), 0, 1);
}

}  // namespace

Options options_of(const ncclConfig_t* config, const Options& inherited) {
  if (config == nullptr) return inherited;
  demand(config->magic == ONSTREAM_NCCL_CONFIG_MAGIC && config->size >= kLeastSize && config->size <= kMostSize,
         "the config was not made with NCCL_CONFIG_INITIALIZER: its magic number is ", config->magic, " and its size ",
         config->size, " B");
  const Reader reader(*config);
  check_hints(reader);
  reader.refuse_newer();
  const char* const net = reader.get(&ncclConfig_t::netName, version(17), static_cast<const char*>(nullptr));
  if (net != nullptr) {
    refuse(ncclInvalidUsage, "the option netName is '", net, "', but ranks meet on one host here; there is no network");
  }
  Options options;
  const auto blocking = reader.number("blocking", &ncclConfig_t::blocking, version(14), 0, 1);
  if (blocking == 0) options.start = Options::Start::background;
  options.most_blocks = reader.number("maxCTAs", &ncclConfig_t::maxCTAs, version(17), 1, kMany);
  const char* const name = reader.get(&ncclConfig_t::commName, version(27), static_cast<const char*>(nullptr));
  if (name != nullptr) options.name = name;
  return options;
}

}  // namespace onstream::nccl
