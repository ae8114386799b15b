// The rules as the library brings them.
//
// Costs were measured: transfers between two H200 (captured ping-pongs, one way) and on the host device between two
// cores; collectives among four H200, on the host between two ranks with a core each, and among three and four on two
// cores, where each rank that is waited for may have to be scheduled first. A transfer that nobody has measured has no
// cost: its rule is taken by its sizes and needs alone.
#include <algorithm>

#include "onstream/path/table.hpp"

namespace onstream::path {

namespace {

constexpr double kStripeBytes = 240;  // of data in two LL128 lines

std::uint64_t bytes_in(std::int64_t parameter) { return static_cast<std::uint64_t>(parameter); }

class Builder {
 public:
  explicit Builder(const Parameters& parameters) : parameters_(parameters) {}

  std::vector<Rule> rules() {
    messages_of_gpus();
    messages_of_hosts();
    for (const Link link : {Link::cuda, Link::host}) plans(link);
    puts();
    collectives_of_gpus();
    collectives_of_hosts();
    return std::move(rules_);
  }

 private:
  Rule& add(Operation operation, Link link, Path path, unsigned needs, const Cost& cost = {}) {
    Rule rule;
    rule.operation = operation;
    rule.link = link;
    rule.path = path;
    rule.needs = needs;
    rule.cost = cost;
    return rules_.emplace_back(rule);
  }
  void on_request(Operation operation, Link link, Path path, unsigned needs, const Cost& cost = {}) {
    add(operation, link, path, needs, cost).by_request = true;
  }
  void ll(Operation operation, Link link, unsigned needs, const Cost& cost) {
    Rule& rule = add(operation, link, Path::ll, needs, cost);
    const auto bound_by = [&rule](std::int64_t bytes, const char* parameter) {
      rule.to_bytes = bytes_in(bytes);
      rule.to_parameter = parameter;
    };
    if (link == Link::cuda) return bound_by(parameters_.ll_max_bytes, "ll_max_bytes");
    if (operation == Operation::plan) return bound_by(parameters_.host_plan_ll_max_bytes, "host_plan_ll_max_bytes");
    bound_by(parameters_.host_ll_max_bytes, "host_ll_max_bytes");
  }

  static void from(Rule& rule, std::int64_t bytes, const char* parameter) {
    rule.from_bytes = bytes_in(bytes);
    rule.from_parameter = parameter;
  }

  void messages_of_gpus() {
    Rule& spread = add(Operation::message, Link::cuda, Path::ll, kSpreadTag | kThroughRing, {1.95, 98e3});
    spread.from_bytes = bytes_in(parameters_.spread_min_bytes) + 1;
    spread.from_parameter = "spread_min_bytes";
    spread.to_bytes = bytes_in(parameters_.spread_max_bytes);
    spread.to_parameter = "spread_max_bytes";
    ll(Operation::message, Link::cuda, kThroughRing, kLl);
    from(add(Operation::message, Link::cuda, Path::copy, kSourceMapped | kSourceInGpuMemory, kCopy),
         parameters_.message_copy_min_bytes, "message_copy_min_bytes");
    from(add(Operation::message, Link::cuda, Path::load, kSourceMapped | kSourceInGpuMemory, kLoad),
         parameters_.load_min_bytes, "load_min_bytes");
    add(Operation::message, Link::cuda, Path::store, kSourceMapped, kStore);
    add(Operation::message, Link::cuda, Path::stage, kNothing, kStage);
    on_request(Operation::message, Link::cuda, Path::copy, kNothing, kCopy);
    on_request(Operation::message, Link::cuda, Path::load, kSourceMapped, kLoad);
    ll(Operation::posted, Link::cuda, kThroughRing, kLl);
    add(Operation::posted, Link::cuda, Path::store, kSourceMapped, kStore);
    add(Operation::posted, Link::cuda, Path::stage, kNothing, kStage);
    on_request(Operation::posted, Link::cuda, Path::load, kSourceMapped, kLoad);
  }

  void messages_of_hosts() {
    for (const Operation operation : {Operation::message, Operation::posted}) {
      ll(operation, Link::host, kThroughRing, kHostLl);
      if (operation == Operation::posted) bounce_of_hosts();
      add(operation, Link::host, Path::store, kSourceMapped, kHostStore);
      add(operation, Link::host, Path::stage, kNothing);
      on_request(operation, Link::host, Path::load, kSourceMapped);
    }
  }

  // A copy to a bounce buffer costs less than the system's copy up to some size; the receiver alone may fetch it later.
  void bounce_of_hosts() {
    Rule& bounce = add(Operation::posted, Link::host, Path::stage, kSourceMapped | kCrossMemory);
    bounce.to_bytes = std::max(bytes_in(parameters_.attach_min_bytes), std::uint64_t{1}) - 1;
    bounce.to_parameter = "attach_min_bytes";
  }

  void plans(Link link) {
    const bool cuda = link == Link::cuda;
    ll(Operation::plan, link, kSourceAccess | kDestinationAccess | kFitsLl, cuda ? kLl : Cost{});
    if (cuda) {
      from(add(Operation::plan, link, Path::copy, kSourceAccess | kDestinationMapped | kFewPieces, kCopy),
           parameters_.copy_min_bytes, "copy_min_bytes");
    }
    add(Operation::plan, link, Path::store, kSourceAccess | kDestinationMapped, cuda ? kStore : Cost{});
    add(Operation::plan, link, Path::load, kDestinationAccess | kSourceMapped, cuda ? kLoad : Cost{});
    add(Operation::plan, link, Path::stage, kOneSideCopies, cuda ? kStage : Cost{});
    on_request(Operation::plan, link, Path::copy, kDestinationMapped | kFewPieces, cuda ? kCopy : Cost{});
    on_request(Operation::plan, link, Path::memop, kSourceAccess | kDestinationMapped | kFewPieces,
               cuda ? kMemop : Cost{});
  }

  void puts() {
    from(add(Operation::put, Link::cuda, Path::copy, kNothing), parameters_.copy_min_bytes, "copy_min_bytes");
    add(Operation::put, Link::cuda, Path::store, kSourceAccess);
    add(Operation::put, Link::host, Path::store, kNothing);
  }

  void collective(Link link, Algorithm algorithm, const Cost& cost) {
    Rule rule;
    rule.operation = Operation::collective;
    rule.link = link;
    rule.algorithm = algorithm;
    rule.by_request = algorithm > Algorithm::simple;
    rule.cost = cost;
    rules_.push_back(rule);
  }
  // Those that pass data from rank to rank start as `simple` does, and their steps are trips of lines.
  void collectives_in_steps(Link link, const Cost& simple, double lines_us) {
    constexpr double kHostsAgree = 3;
    constexpr double kEngineWords = 12;  // before and behind the copies
    collective(link, Algorithm::copy, {.base_us = kHostsAgree + kEngineWords, .bytes_per_us = simple.bytes_per_us});
    for (const Algorithm one : {Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling}) {
      Cost cost = simple;
      cost.step_us = lines_us;
      collective(link, one, cost);
    }
  }

  void collectives_of_gpus() {
    constexpr double kTrip = 1.3;
    constexpr double kTripPeer = 0.1;
    const Cost lines = {
        .base_us = 2.0, .bytes_per_us = 150e3, .round_us = 0.3, .trip_us = kTrip, .trip_peer_us = kTripPeer};
    const Cost simple = {.base_us = 7.5, .bytes_per_us = 370e3};
    collective(Link::cuda, Algorithm::ll, lines);
    collective(Link::cuda, Algorithm::two_shot, lines);
    collective(Link::cuda, Algorithm::ll128,
               {.base_us = 3.3,
                .bytes_per_us = 300e3,
                .trip_us = kTrip,
                .trip_peer_us = kTripPeer,
                .one_shot_bytes = 640 << 10});
    collective(Link::cuda, Algorithm::simple, simple);
    collectives_in_steps(Link::cuda, simple, lines.base_us);
  }

  void collectives_of_hosts() {
    const Cost lines = {.base_us = 0.33, .bytes_per_us = 700, .trip_peer_us = 0.35, .sum_weight = 2};
    const Cost simple = {.base_us = 0.9, .bytes_per_us = 18e3, .peer_us = 0.4};
    collective(Link::host, Algorithm::ll, lines);
    collective(Link::host, Algorithm::two_shot, lines);
    collective(Link::host, Algorithm::ll128,
               {.base_us = 0.45, .bytes_per_us = 2000, .trip_peer_us = 0.35, .one_shot_bytes = kStripeBytes});
    collective(Link::host, Algorithm::simple, simple);
    collectives_in_steps(Link::host, simple, lines.base_us);

    const Cost shared_lines = {.base_us = 2.0, .bytes_per_us = 370, .trip_peer_us = 0.9, .sum_weight = 3};
    const Cost shared_simple = {.base_us = 2.2, .bytes_per_us = 8e3, .peer_us = 2.0};
    collective(Link::crowded_host, Algorithm::ll, shared_lines);
    collective(Link::crowded_host, Algorithm::two_shot, shared_lines);
    collective(Link::crowded_host, Algorithm::ll128,
               {.base_us = 2.5,
                .bytes_per_us = 1700,
                .trip_peer_us = 0.9,
                .broadcast_weight = 0.5,
                .one_shot_bytes = 3 << 10});
    collective(Link::crowded_host, Algorithm::simple, shared_simple);
    collectives_in_steps(Link::crowded_host, shared_simple, shared_lines.base_us);
  }

  static constexpr Cost kLl{1.75, 15.2e3};
  static constexpr Cost kStore{3.5, 367e3};
  static constexpr Cost kLoad{7.1, 331e3};
  static constexpr Cost kCopy{16.5, 385e3};
  static constexpr Cost kMemop{16.6, 370e3};
  static constexpr Cost kStage{12.6, 16.3e3};
  static constexpr Cost kHostLl{0.13, 9.3e3};
  static constexpr Cost kHostStore{0.2, 60e3};

  const Parameters& parameters_;
  std::vector<Rule> rules_;
};

}  // namespace

std::vector<Rule> built_in_rules(const Parameters& parameters) { return Builder(parameters).rules(); }

}  // namespace onstream::path
