#include "onstream/transport/peer_mapping.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/bootstrap/wire.hpp"
#include "onstream/device/export.hpp"
#include "onstream/device/kernel/remote_process.hpp"

namespace onstream {

namespace {

template <class Value>
std::string bytes_of(const Value& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(Value));
}

template <class Value>
Value value_of(const std::string& bytes, const char* what) {
  if (bytes.size() != sizeof(Value)) {
    fail(ErrorCode::system, what, " has ", bytes.size(), " bytes where ", sizeof(Value), " belong");
  }
  Value value;
  std::memcpy(&value, bytes.data(), sizeof(Value));
  return value;
}

constexpr std::size_t kRelayBytes = std::size_t{1} << 20;  // of one request, for which the peer's mesh stands still

constexpr double kMomentS = 0.01;  // that the mesh's thread waits for mappings to be let go
constexpr auto kBetweenTries = std::chrono::microseconds(100);
constexpr double kSetUpS = 1;  // that a call which sets up waits for what a peer still lets go of
// Until an owner asks again whose peer still lets go of some, at first and at most; later each time.
constexpr std::uint64_t kSoonNs = 10'000'000;
constexpr std::uint64_t kLateNs = 1000'000'000;

}  // namespace

// Kept by attachments, which may outlive the world (mapped()).
struct PeerMapping::Asker {
  std::shared_mutex mutex;
  PeerMapping* mapping;  // null: the world has ended
};

class PeerMapping::Asking final : public Relay {
 public:
  Asking(std::shared_ptr<Asker> asker, int peer) : asker_(std::move(asker)), peer_(peer) {}
  int copy(CrossMemoryCopy what, int refusal) override {
    const std::shared_lock lock(asker_->mutex);
    return asker_->mapping == nullptr ? ESRCH : asker_->mapping->ask_to_relay(peer_, what, refusal);
  }

 private:
  std::shared_ptr<Asker> asker_;
  int peer_;
};

PeerMapping::PeerMapping(std::shared_ptr<Device> device, Mesh& mesh, const Hosts& hosts, int rank,
                         const Parameters& parameters)
    : device_(std::move(device)),
      mesh_(mesh),
      hosts_(hosts),
      rank_(rank),
      timeout_s_(parameters.timeout_s),
      may_attach_(parameters.attach == "auto"),
      asker_(std::make_shared<Asker>()) {
  asker_->mapping = this;
  mesh_.on("the relay of a copy",
           [this](int peer, const std::string& payload, Fd) { return relay_for(peer, payload); });
  mesh_.on("the attaching to a process",
           [this](int peer, const std::string& payload, Fd) { return attach_for(peer, payload); });
  mesh_.on("the mapping of a buffer",
           [this](int peer, const std::string& payload, Fd fd) { return map_for(peer, payload, std::move(fd)); });
  mesh_.on("the end of a buffer", [this](int peer, const std::string& payload, Fd) {
    if (auto gone = take(peer, value_of<std::uint64_t>(payload, "an unmap notice")))
      disposal_.hand_over(std::move(gone));
    return std::string();
  });
}

std::string PeerMapping::map_for(int peer, const std::string& payload, Fd fd) {
  const auto record = value_of<ExportRecord>(payload, "an export record");
  {
    // Two threads of the owner may ask at once; the first mapping is in use already.
    const std::lock_guard lock(mutex_);
    const auto known = imports_->mappings.find({peer, record.id});
    if (known != imports_->mappings.end()) return bytes_of(reinterpret_cast<std::uint64_t>(known->second->data()));
  }
  std::shared_ptr<Mapping> mapping = import_soon(record, std::move(fd));
  if (mapping == nullptr) return bytes_of(std::uint64_t{0});
  const auto address = reinterpret_cast<std::uint64_t>(mapping->data());
  const std::lock_guard lock(mutex_);
  imports_->mappings[{peer, record.id}] = std::move(mapping);
  return bytes_of(address);
}

// Null if the place is taken for longer than a moment.
std::shared_ptr<Mapping> PeerMapping::import_soon(const ExportRecord& record, Fd fd) {
  std::shared_ptr<Mapping> mapping = device_->import_memory(record, std::move(fd));
  for (const Deadline moment(kMomentS); mapping == nullptr && !moment.passed();) {
    std::this_thread::sleep_for(kBetweenTries);
    mapping = device_->import_memory(record, Fd());  // what comes with a descriptor is never refused so
  }
  return mapping;
}

std::uint64_t PeerMapping::offer(const MemoryInfo& info, int peer) {
  Export exported = device_->export_memory(info);
  const std::string answer = mesh_.request(peer, "the mapping of a buffer", bytes_of(exported.record),
                                           std::move(exported.fd), Deadline(timeout_s_));
  return value_of<std::uint64_t>(answer, "an answer to a map request");
}

void PeerMapping::withdraw(const MemoryInfo& info, int peer) {
  mesh_.notify(peer, "the end of a buffer", bytes_of(info.id));
}

std::shared_ptr<Mapping> PeerMapping::take(int peer, std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = imports_->mappings.find({peer, id});
  if (found == imports_->mappings.end()) return nullptr;
  std::shared_ptr<Mapping> mapping = std::move(found->second);
  imports_->mappings.erase(found);
  return mapping;
}

std::shared_ptr<Mapping> PeerMapping::imported(int peer, std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = imports_->mappings.find({peer, id});
  return found == imports_->mappings.end() ? nullptr : found->second;
}

std::optional<std::uint64_t> PeerMapping::export_to_peer(const void* address, std::size_t bytes, int peer) {
  if (peer == rank_) return reinterpret_cast<std::uint64_t>(address);
  if (hosts_.is_remote(peer)) return std::nullopt;
  const MemoryInfo info = device_->inspect(address);
  if (!info.exportable) return refuse(info);
  const auto* begin = static_cast<const std::byte*>(address);
  require(begin + bytes <= info.base + info.bytes, "the buffer of ", bytes, " B at ", address, " ends ",
          begin + bytes - (info.base + info.bytes), " B after its allocation of ", info.bytes, " B");
  const auto offset = static_cast<std::uint64_t>(begin - info.base);
  if (const auto known = known_address(info, peer, offset)) return *known;
  forget(exports_near(info, peer));
  ExportedMemory entry{info.base, info.bytes, info.id, 0, ""};
  try {
    entry.peer_base = offer(info, peer);
    if (entry.peer_base == 0) ask_again_later(entry, peer);
  } catch (const Error& error) {
    // A peer that has left maps nothing any more, but data that it sent before is still in the ring.
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::closed) throw;
    entry.reason = error.what();
    if (error.code() == ErrorCode::unsupported) {
      log_once(LogLevel::warn, concat("reach.unmapped.", peer), "rank ", peer, " cannot map ", human_bytes(info.bytes),
               " of this rank's ", name_of(info.kind), " memory: ", error.what(),
               "; what does not fit a tag's ring is copied once or twice more");
    }
  }
  const std::lock_guard lock(mutex_);
  counts_.misses += 1;
  if (entry.peer_base == 0 && entry.again_ns == 0) counts_.failures += 1;
  exported_[{peer, info.base}] = entry;
  if (entry.peer_base == 0) return std::nullopt;
  return entry.peer_base + offset;
}

void PeerMapping::ask_again_later(ExportedMemory& entry, int peer) {
  entry.reason = concat("rank ", peer, " still lets go of freed memory that it had mapped at this place");
  log(LogLevel::info, "a buffer of ", human_bytes(entry.bytes), " is staged for now: ", entry.reason);
  const std::lock_guard lock(mutex_);
  const auto before = exported_.find({peer, entry.base});
  const bool again = before != exported_.end() && before->second.id == entry.id;
  entry.patience_ns = again ? std::min(2 * before->second.patience_ns, kLateNs) : kSoonNs;
  entry.again_ns = now_ns() + entry.patience_ns;
}

std::optional<std::uint64_t> PeerMapping::export_in_time(const void* address, std::size_t bytes, int peer) {
  const Deadline deadline(std::min(timeout_s_, kSetUpS));
  for (;;) {
    const std::optional<std::uint64_t> there = export_to_peer(address, bytes, peer);
    if (there || deadline.passed() || !is_pending(address, peer)) return there;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool PeerMapping::is_pending(const void* address, int peer) {
  const MemoryInfo info = device_->inspect(address);
  const std::lock_guard lock(mutex_);
  const auto found = exported_.find({peer, info.base});
  return found != exported_.end() && found->second.id == info.id && found->second.again_ns != 0;
}

// The answer that is known already, if there is one.
std::optional<std::optional<std::uint64_t>> PeerMapping::known_address(const MemoryInfo& info, int peer,
                                                                       std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  const auto found = exported_.find({peer, info.base});
  if (found == exported_.end() || found->second.id != info.id) return std::nullopt;
  const ExportedMemory& entry = found->second;
  if (entry.peer_base == 0 && entry.again_ns != 0 && now_ns() >= entry.again_ns) return std::nullopt;
  counts_.hits += 1;
  if (entry.peer_base == 0) return std::optional<std::uint64_t>();
  return entry.peer_base + offset;
}

std::optional<std::uint64_t> PeerMapping::refuse(const MemoryInfo& info) {
  {
    const std::lock_guard lock(mutex_);
    counts_.unreachable += 1;
  }
  if (info.kind != MemoryKind::host) {
    log_once(LogLevel::warn, concat("reach.private.", name_of(info.kind), ".", info.why_private), "peers cannot map ",
             name_of(info.kind), " memory that is in use: ", info.why_private,
             "; what does not fit a tag's ring is copied once or twice more");
  }
  return std::nullopt;
}

PeerMappingStatistics PeerMapping::statistics() {
  const std::lock_guard lock(mutex_);
  PeerMappingStatistics out = counts_;
  for (const auto& [key, entry] : exported_) {
    if (entry.peer_base == 0) continue;
    out.exported += 1;
    out.exported_bytes += entry.bytes;
  }
  for (const auto& [key, mapping] : imports_->mappings) {
    out.imported += 1;
    out.imported_bytes += mapping->bytes();
  }
  return out;
}

std::vector<PeerMapping::KnownExport> PeerMapping::known_exports() {
  const std::lock_guard lock(mutex_);
  std::vector<KnownExport> all;
  for (const auto& [key, entry] : exported_) all.push_back({key.first, key.second, entry.id});
  return all;
}

// Those that overlap `info`, and those in the pages that the driver parts among small allocations: it maps them whole.
std::vector<PeerMapping::KnownExport> PeerMapping::exports_near(const MemoryInfo& info, int peer) {
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(info.base) & ~(kPage - 1);
  const auto end = (reinterpret_cast<std::uintptr_t>(info.base) + info.bytes + kPage - 1) & ~(kPage - 1);
  const std::lock_guard lock(mutex_);
  std::vector<KnownExport> near;
  auto entry = exported_.lower_bound({peer, reinterpret_cast<std::byte*>(begin)});
  if (entry != exported_.begin()) --entry;  // it may reach into the first page
  for (; entry != exported_.end() && entry->first <= std::pair(peer, reinterpret_cast<std::byte*>(end)); ++entry) {
    if (entry->first.first == peer) near.push_back({peer, entry->first.second, entry->second.id});
  }
  return near;
}

// Those of them that this rank has freed. The driver is asked without the mutex: sends wait for that one.
void PeerMapping::forget(std::vector<KnownExport> exports) {
  std::erase_if(exports, [&](const KnownExport& one) { return device_->inspect(one.base).id == one.id; });
  for (const KnownExport& gone : exports) {
    {
      const std::lock_guard lock(mutex_);
      const auto entry = exported_.find({gone.peer, gone.base});
      if (entry == exported_.end() || entry->second.id != gone.id) continue;  // another thread was faster
      exported_.erase(entry);
      counts_.stale += 1;
    }
    mesh_.notify(gone.peer, "the end of a buffer", bytes_of(gone.id));
  }
}

std::string PeerMapping::attach_for(int peer, const std::string& payload) {
  const auto record = value_of<ProcessRecord>(payload, "a process record");
  if (!may_attach_) fail(ErrorCode::unsupported, "parameter attach is off");
  std::shared_ptr<Attachment> attachment = device_->attach(record, mesh_.pid(peer));
  attachment->relay_by(std::make_shared<Asking>(asker_, peer));
  const std::lock_guard lock(mutex_);
  // Two threads of the owner may ask at once; the first answer is in use already.
  return bytes_of(imports_->attachments.try_emplace(peer, std::move(attachment)).first->second->base());
}

PeerMapping::Attached PeerMapping::ask_to_attach(int peer) {
  Attached answer;
  try {
    if (!may_attach_) fail(ErrorCode::unsupported, "parameter attach is off");
    const std::optional<ProcessRecord> record = device_->process_record();
    if (!record) return {true, 0, concat("the ", name_of(device_->kind()), " device maps memory, or copies it")};
    const std::string base =
        mesh_.request(peer, "the attaching to a process", bytes_of(*record), Fd(), Deadline(timeout_s_));
    answer.base = value_of<std::uint64_t>(base, "an answer to an attach request");
    log(LogLevel::info, "rank ", peer, " copies plain memory of this rank itself",
        answer.base == 0 ? " (one process)" : " (cross-memory attach)");
  } catch (const Error& error) {
    // A peer that has left copies nothing any more, but data that it sent before is still in the ring.
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::closed) throw;
    answer = {true, 0, error.what()};
    const bool expected = !may_attach_ || error.code() == ErrorCode::closed;
    const LogLevel level = expected ? LogLevel::info : LogLevel::warn;
    log_once(level, "reach.attach", "plain memory goes through bounce buffers, at half the speed or less: rank ", peer,
             " cannot copy it itself: ", error.what());
  }
  return answer;
}

std::optional<std::uint64_t> PeerMapping::Attached::name_of(std::uint64_t address) const {
  // Tagged pointers and the upper half of larger address spaces do not fit beside a process's number.
  if (refused || (address >> kRemoteProcessShift) != 0) return std::nullopt;
  return base + address;
}

PeerMapping::Attached PeerMapping::attached(int peer) {
  if (hosts_.is_remote(peer)) return {true, 0, hosts_.why_apart(peer)};
  {
    const std::lock_guard lock(mutex_);
    const auto known = attached_by_.find(peer);
    if (known != attached_by_.end()) return known->second;
  }
  const Attached answer = ask_to_attach(peer);
  const std::lock_guard lock(mutex_);
  return attached_by_.emplace(peer, answer).first->second;
}

std::optional<std::uint64_t> PeerMapping::attach(const void* address, int peer) {
  const auto plain = reinterpret_cast<std::uint64_t>(address);
  if (peer == rank_) return plain;
  const Attached known = attached(peer);
  return known.relayed ? std::nullopt : known.name_of(plain);
}

std::optional<std::uint64_t> PeerMapping::attach_for_good(const void* address, int peer) {
  const auto plain = reinterpret_cast<std::uint64_t>(address);
  return peer == rank_ ? plain : attached(peer).name_of(plain);
}

// --- copies that the system refuses behind the start ---

void PeerMapping::stop_relaying() {
  const std::unique_lock lock(asker_->mutex);
  asker_->mapping = nullptr;
}

// In the thread that copies.
int PeerMapping::ask_to_relay(int peer, CrossMemoryCopy what, int refusal) {
  const std::string why = concat("the system no longer lets rank ", rank_, " access the memory of rank ", peer,
                                 " (cross-memory attach: ", error_text(refusal), ")");
  log_once(LogLevel::warn, concat("reach.relay.", peer), why,
           ": rights went after the start, as setuid and PR_SET_DUMPABLE take them. Plain memory of that rank goes "
           "through bounce buffers from now on, at half the speed or less; drop rights before the world is made");
  const bool writes = what.direction == CrossMemoryCopy::CopyDirection::write;
  try {
    while (what.bytes > 0) {
      const std::size_t now = std::min(what.bytes, kRelayBytes);
      const std::string_view data(reinterpret_cast<const char*>(what.own), writes ? now : 0);
      const std::string asked = wire::Packer().text(why).u8(writes ? 1 : 0).u64(what.theirs).u64(now).text(data).body();
      const std::string answer = mesh_.request(peer, "the relay of a copy", asked, Fd(), Deadline(timeout_s_));
      wire::Unpacker body(answer);
      const int error = static_cast<int>(body.u32());
      const std::string_view came = body.text();
      if (error != 0) return error;
      if (!writes && came.size() != now) return EFAULT;
      if (!writes) std::memcpy(what.own, came.data(), now);
      what.own += now;
      what.theirs += now;
      what.bytes -= now;
    }
  } catch (const Error& error) {
    return error.code() == ErrorCode::timeout ? ETIMEDOUT : ESRCH;
  }
  return 0;
}

// In the mesh's thread, for a peer to which this process gave its record.
std::string PeerMapping::relay_for(int peer, const std::string& payload) {
  wire::Unpacker body(payload);
  const std::string_view why = body.text();
  const bool writes = body.u8() != 0;
  auto* const here = reinterpret_cast<void*>(body.u64());
  const std::uint64_t bytes = body.u64();
  const std::string_view data = body.text();
  body.end();
  require(bytes <= kRelayBytes && data.size() == (writes ? bytes : 0), "a relay of ", bytes, " B with ", data.size());
  {
    const std::lock_guard lock(mutex_);
    const auto known = attached_by_.find(peer);
    require(known != attached_by_.end() && !known->second.refused, "rank ", peer, " is not attached to this process");
    known->second.relayed = true;
    known->second.reason = why;
  }
  std::string came(writes ? 0 : bytes, '\0');
  const int error = writes ? copy_carefully(here, data.data(), bytes) : copy_carefully(came.data(), here, bytes);
  return wire::Packer().u32(static_cast<std::uint32_t>(error)).text(error == 0 ? came : std::string()).body();
}

std::string PeerMapping::attach_story() {
  const std::lock_guard lock(mutex_);
  std::string story;
  for (const auto& [peer, known] : attached_by_) {
    story += concat(story.empty() ? "" : "; ", "plain memory to rank ", peer, ": ");
    const bool bounces = known.refused || known.relayed;
    story += bounces           ? concat("through bounce buffers (", known.reason, ")")
             : known.base == 0 ? "copied once (one process)"
                               : "copied once (cross-memory attach)";
  }
  return story;
}

std::string PeerMapping::why_not(const void* address, int peer) {
  if (hosts_.is_remote(peer)) return hosts_.why_apart(peer);
  const MemoryInfo info = device_->inspect(address);
  if (info.kind == MemoryKind::host) return "plain host memory";  // short: explain() has it in each row
  if (!info.exportable) return concat(name_of(info.kind), " memory is private: ", info.why_private);
  const std::lock_guard lock(mutex_);
  const auto found = exported_.find({peer, info.base});
  return found == exported_.end() ? "" : found->second.reason;
}

}  // namespace onstream
