#include "onstream/tuner/choose.hpp"

#include <algorithm>

#include "onstream/base/text.hpp"

namespace onstream {

namespace {

std::uint64_t ll_limit(const Transfer& transfer, const Parameters& parameters) {
  const std::int64_t limit =
      transfer.device == DeviceKind::host ? parameters.host_ll_max_bytes : parameters.ll_max_bytes;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(limit, 0));
}

const char* ll_limit_name(DeviceKind device) {
  return device == DeviceKind::host ? "host_ll_max_bytes" : "ll_max_bytes";
}

// Empty if `path` can carry the transfer, else why it cannot.
std::string why_impossible(Path path, const Transfer& t) {
  const char* untouchable = "kernels cannot touch ";
  switch (path) {
    case Path::ll:
      if (!t.source.kernel_access) return concat(untouchable, "the source");
      if (!t.destination.kernel_access) return concat(untouchable, "the destination");
      if (t.bytes > kLargestLl)
        return concat(human_bytes(t.bytes), " exceed the ", human_bytes(kLargestLl), " that ll carries");
      return "";
    case Path::store:
      if (!t.source.kernel_access) return concat(untouchable, "the source");
      if (!t.destination.exposed) return concat("the sender cannot reach the destination: ", t.destination.why_not);
      return "";
    case Path::load:
      if (!t.destination.kernel_access) return concat(untouchable, "the destination");
      if (!t.source.exposed) return concat("the receiver cannot reach the source: ", t.source.why_not);
      return "";
    case Path::copy:
      if (!t.destination.exposed) return concat("the sender cannot reach the destination: ", t.destination.why_not);
      if (t.pieces == 0) return concat("the layouts fall into more than ", kMaxPieces, " contiguous pieces");
      return "";
    case Path::memop:
      if (!t.source.kernel_access) return concat(untouchable, "the source");
      return why_impossible(Path::copy, t);
    case Path::stage:
      if ((!t.source.kernel_access || !t.destination.kernel_access) && t.pieces == 0) {
        return concat("kernels cannot touch both ends, and the layouts fall into more than ", kMaxPieces,
                      " contiguous pieces");
      }
      return "";
    case Path::net: return "this build has no network transport";
    case Path::automatic: return "";
  }
  return "unknown path";
}

Choice choose_freely(const Transfer& t, const Parameters& parameters) {
  const std::uint64_t limit = ll_limit(t, parameters);
  if (t.bytes <= limit && why_impossible(Path::ll, t).empty()) {
    return {Path::ll, concat(human_bytes(t.bytes), " <= ", ll_limit_name(t.device), " ", human_bytes(limit))};
  }
  const std::uint64_t copy_min = static_cast<std::uint64_t>(std::max<std::int64_t>(parameters.copy_min_bytes, 0));
  std::string aside;
  if (t.device == DeviceKind::cuda && t.bytes >= copy_min && t.source.kernel_access) {
    const std::string obstacle = why_impossible(Path::copy, t);
    if (obstacle.empty()) {
      return {Path::copy, concat(human_bytes(t.bytes), " >= copy_min_bytes ", human_bytes(copy_min))};
    }
    aside = concat("; not copy: ", obstacle);
  }
  const std::string no_store = why_impossible(Path::store, t);
  if (no_store.empty()) {
    return {Path::store, concat(human_bytes(t.bytes), " > ", ll_limit_name(t.device), " ", human_bytes(limit), aside)};
  }
  const std::string no_load = why_impossible(Path::load, t);
  if (no_load.empty()) return {Path::load, concat("not store: ", no_store, aside)};
  const std::string no_stage = why_impossible(Path::stage, t);
  const bool same = !t.destination.exposed && !t.source.exposed && t.destination.why_not == t.source.why_not;
  if (no_stage.empty() && same && !t.source.why_not.empty()) return {Path::stage, t.source.why_not};  // said once
  if (no_stage.empty()) return {Path::stage, concat("not store: ", no_store, "; not load: ", no_load)};
  return {Path::automatic, concat("not store: ", no_store, "; not load: ", no_load, "; not stage: ", no_stage)};
}

}  // namespace

bool needs_exposure(const Transfer& transfer, const Parameters& parameters) {
  if (transfer.same_rank || transfer.wanted == Path::ll || transfer.wanted == Path::stage) return false;
  if (transfer.wanted != Path::automatic) return true;
  return choose_freely(transfer, parameters).path != Path::ll;
}

Choice choose(const Transfer& transfer, const Parameters& parameters) {
  Transfer t = transfer;
  if (t.same_rank) {
    // A message to oneself is a local copy; only the copy engine is another way to make it.
    t.source.exposed = t.destination.exposed = true;
    const bool by_engine = t.wanted == Path::copy || t.wanted == Path::memop;
    if (!by_engine) t.wanted = Path::automatic;
    const bool touchable = t.source.kernel_access && t.destination.kernel_access;
    if (t.wanted == Path::automatic && touchable) return {Path::store, "both ends are of this rank"};
    const Path path = by_engine ? t.wanted : Path::copy;
    const std::string obstacle = why_impossible(path, t);
    if (!obstacle.empty()) return {Path::automatic, obstacle};
    return {path, touchable ? t.wanted_by : "both ends are of this rank, and kernels cannot touch both"};
  }
  if (t.wanted == Path::automatic) return choose_freely(t, parameters);
  const std::string obstacle = why_impossible(t.wanted, t);
  if (obstacle.empty()) return {t.wanted, t.wanted_by};
  return {Path::automatic, concat("path ", name_of(t.wanted), " (", t.wanted_by, ") cannot work: ", obstacle)};
}

}  // namespace onstream
