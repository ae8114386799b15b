// A Fabric's calls for agreements, symmetric memory and addresses; fabric_start.cpp makes it and ends it, and
// fabric_failure.cpp has its failures.
#include "onstream/transport/fabric.hpp"

#include <utility>

#include "onstream/transport/fabric_implementation.hpp"
#include "onstream/transport/status_exchange.hpp"

namespace onstream {

std::vector<std::string> Fabric::Implementation::all_gather(std::string_view topic, std::string_view mine,
                                                            std::string_view what_for) {
  check_for(topic, DidNot::start);
  try {
    return mesh_.all_gather(topic, mine, Deadline(parameters_.timeout_s));
  } catch (const Error& error) {
    check_for(topic, DidNot::end);  // the world's own story says more, if it has failed
    if (error.code() != ErrorCode::timeout) throw;
    late(concat(error.what(), " (parameter timeout_s)", what_for.empty() ? "" : ", for ", what_for));
  }
}

std::vector<std::string> Fabric::Implementation::agree(std::string_view topic,
                                                       const std::function<std::string()>& mine) {
  check_for(topic, DidNot::start);
  std::string word;
  try {
    word = word_of(mine);
  } catch (const Error& error) {
    late(concat(topic, ": ", error.what()));
  }
  return agreed(all_gather(topic, word));
}

std::shared_ptr<Segment> Fabric::Implementation::segment(std::size_t bytes, MemoryKind kind, Mapped mapped) {
  const auto mine = [&] {
    require(bytes > 0, "a segment needs at least one byte");
    return concat(bytes, " B of ", name_of(kind), " memory");
  };
  require_alike(agree("the allocation of a segment", mine), "a segment is the same on every rank, but", "asks for");
  constexpr double kOnItsWayS = 1;
  const bool staged = mapped == Mapped::by_path && parameters_.path == "stage";
  const std::string unmapped_why = staged ? "parameter path is stage" : "";
  const SegmentMaker maker{*device_,         peer_mapping_, hosts_, launch_.rank, launch_.size,
                           ++segments_made_, unmapped_why,  mapped, device_bytes_};
  const auto agree_on = [this](const std::function<std::string()>& notice) {
    return agree("the mapping of a segment", notice);
  };
  auto made = or_story([&] { return std::make_shared<MappedSegment>(maker, bytes, kind, agree_on); }, kOnItsWayS);
  segments_.add(made);
  return made;
}

void Fabric::Implementation::free(const std::shared_ptr<Segment>& segment, const std::function<void()>& agreed) {
  const auto mapped = std::dynamic_pointer_cast<MappedSegment>(segment);
  const std::string mine = mapped == nullptr ? std::string("no segment")
                           : mapped->freed() ? concat("segment ", mapped->number(), ", which was freed before")
                                             : concat("segment ", mapped->number());
  require_alike(all_gather("the end of a segment", mine), "a segment is freed by every rank at once, but", "frees");
  require(mapped != nullptr && !mapped->freed(), "free: ", mine);
  agreed();
  mapped->release();
}

int Fabric::rank() const { return implementation_->launch_.rank; }
int Fabric::size() const { return implementation_->launch_.size; }
const Launch& Fabric::launch() const { return implementation_->launch_; }
const Parameters& Fabric::parameters() const { return implementation_->parameters_; }
const path::Table& Fabric::paths() const { return implementation_->paths_; }
const std::shared_ptr<Device>& Fabric::device() const { return implementation_->device_; }

bool Fabric::is_remote(int peer) const { return implementation_->hosts_.is_remote(peer); }
int Fabric::host_of(int peer) const { return implementation_->hosts_.host_of(peer); }
const std::shared_ptr<net::NetworkProxy>& Fabric::network() const { return implementation_->hosts_.network(); }
std::vector<std::string> Fabric::all_gather(std::string_view topic, std::string_view mine, std::string_view what_for) {
  return implementation_->all_gather(topic, mine, what_for);
}
std::vector<std::string> Fabric::agree(std::string_view topic, const std::function<std::string()>& mine) {
  return implementation_->agree(topic, mine);
}
void Fabric::barrier(std::string_view topic) { (void)implementation_->all_gather(topic, ""); }
void Fabric::require_same(std::string_view rule, std::string_view verb, std::string_view mine) {
  const std::string_view agreed = rule.substr(0, rule.rfind(", but"));
  require_alike(all_gather(concat("the agreement that ", agreed), mine), rule, verb);
}
std::shared_ptr<Segment> Fabric::segment(std::size_t bytes, MemoryKind kind, Mapped mapped) {
  return implementation_->segment(bytes, kind, mapped);
}
void Fabric::free(const std::shared_ptr<Segment>& segment, const std::function<void()>& agreed) {
  implementation_->free(segment, agreed);
}
std::optional<std::uint64_t> Fabric::export_in_time(const void* address, std::size_t bytes, int peer) {
  return implementation_->or_story([&] { return implementation_->peer_mapping_.export_in_time(address, bytes, peer); });
}
std::optional<std::uint64_t> Fabric::export_to_peer(const void* address, std::size_t bytes, int peer) {
  return implementation_->or_story([&] { return implementation_->peer_mapping_.export_to_peer(address, bytes, peer); });
}
WordPlace Fabric::place_of(const void* word) const { return implementation_->segments_.place_of(word); }
std::shared_ptr<const void> Fabric::imported(int peer, std::uint64_t id) const {
  return implementation_->peer_mapping_.imported(peer, id);
}
std::string Fabric::why_not(const void* address, int peer) const {
  return implementation_->peer_mapping_.why_not(address, peer);
}
std::shared_ptr<Segment> Fabric::segment_of(int peer, const void* address, std::size_t bytes) const {
  return implementation_->segments_.of(peer, address, bytes);
}
void Fabric::guard(Stream stream, const void* address) const {
  if (auto segment = implementation_->segments_.of_any(size(), address)) device()->guard(stream, std::move(segment));
}
void Fabric::guard_segment(Stream stream, std::uint64_t number) const {
  if (auto segment = implementation_->segments_.numbered(number)) device()->guard(stream, std::move(segment));
}
WaitView Fabric::wait_view() const { return implementation_->board_->wait_view(); }
WaitView Fabric::wait_view(int peer) const { return implementation_->board_->wait_view(peer); }
bool Fabric::in_forked_child() const { return implementation_->guard_.in_child(); }
void Fabric::check_process() const { implementation_->guard_.check("this world"); }
bool Fabric::has_left(int peer) const { return implementation_->board_->has_left(peer); }
std::shared_ptr<const void> Fabric::wait_memory() const {
  using All = std::vector<std::shared_ptr<const void>>;
  return std::make_shared<const All>(All{implementation_->board_, implementation_->peer_mapping_.mapped(), network()});
}
const std::shared_ptr<OwnMemory>& Fabric::own_memory() const { return implementation_->own_memory_; }
const std::shared_ptr<StreamPool>& Fabric::streams() const { return implementation_->streams_; }
void Fabric::set_ahead(const Ahead& ahead) { implementation_->ahead_ = ahead; }
StreamTracker& Fabric::uses() const { return implementation_->uses_; }
std::shared_ptr<Watchdog> Fabric::watch() const { return implementation_->watch_; }
CopyThread& Fabric::copies() const { return *implementation_->copies_; }
PeerMappingStatistics Fabric::reach_statistics() const { return implementation_->peer_mapping_.statistics(); }
std::optional<std::uint64_t> Fabric::attach(const void* address, int peer) {
  return implementation_->or_story([&] { return implementation_->peer_mapping_.attach(address, peer); });
}
std::optional<std::uint64_t> Fabric::attach_for_good(const void* address, int peer) {
  return implementation_->or_story([&] { return implementation_->peer_mapping_.attach_for_good(address, peer); });
}
std::string Fabric::attach_story() const { return implementation_->peer_mapping_.attach_story(); }
int Fabric::block_limit() const { return implementation_->block_limit_; }
bool Fabric::whole_lines() const { return implementation_->whole_lines_; }
bool Fabric::crowded() const { return implementation_->crowded_; }
std::size_t Fabric::device_bytes() const { return *implementation_->device_bytes_; }

}  // namespace onstream
