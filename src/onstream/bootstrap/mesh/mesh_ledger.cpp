#include "onstream/bootstrap/mesh/mesh_ledger.hpp"

#include <chrono>

#include "onstream/bootstrap/host.hpp"

namespace onstream {

std::string MeshLedger::name_of(int peer) const { return name_of_rank(peer, at(peer).pid, at(peer).other_host); }

bool MeshLedger::alive(int peer) const {
  const std::lock_guard lock(mutex_);
  return at(peer).gone == PeerGone::no;
}

Error MeshLedger::gone_error(int peer, std::string_view topic) const {
  const PeerRecord& one = at(peer);
  const ErrorCode code = one.gone == PeerGone::left ? ErrorCode::closed : ErrorCode::aborted;
  return Error(code, concat(topic, ": ", one.why));
}

Error MeshLedger::failed_error(std::string_view topic) const {
  return Error(ErrorCode::aborted, concat(topic, ": ", *failed_));
}

// --- the caller's side ---

void MeshLedger::expect(std::uint64_t id, int peer, std::string_view topic) {
  const std::lock_guard lock(mutex_);
  if (at(peer).gone != PeerGone::no) throw gone_error(peer, topic);
  if (failed_) throw failed_error(topic);
  const auto call = std::make_shared<Call>();
  call->peer = peer;
  call->topic = topic;
  calls_.emplace(id, call);
}

std::string MeshLedger::await_answer(std::uint64_t id, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Call> call = calls_.at(id);
  const bool done = wait_by(deadline, changed_, lock, [&] { return call->done; });
  calls_.erase(id);
  if (!done)
    fail(ErrorCode::timeout, name_of(call->peer), " did not answer for ", call->topic, " within ", deadline.limit_s(),
         " s");
  if (call->error) throw Error(call->error->code(), call->error->what());
  return std::move(call->answer);
}

MeshLedger::Gathered& MeshLedger::gathered(GatherKey key) {
  Gathered& values = gathers_[std::move(key)];
  values.resize(peers_.size());
  return values;
}

std::uint64_t MeshLedger::join(std::string_view topic, std::string_view mine) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t ordinal = ++ordinals_[std::string(topic)];
  gathered({std::string(topic), ordinal})[static_cast<std::size_t>(rank_)] = mine;
  return ordinal;
}

MeshLedger::Absent MeshLedger::absent_from(const Gathered& values) const {
  Absent absent;
  for (int peer = 0; peer < size(); ++peer) {
    if (values[static_cast<std::size_t>(peer)]) continue;
    absent.names += concat(absent.names.empty() ? "" : ", ", name_of(peer));
    if (!absent.gone && at(peer).gone != PeerGone::no) absent.gone = peer;
  }
  return absent;
}

std::vector<std::string> MeshLedger::await_gather(std::string_view topic, std::uint64_t ordinal, Deadline deadline) {
  const GatherKey key(topic, ordinal);
  std::unique_lock lock(mutex_);
  Absent absent;
  (void)wait_by(deadline, changed_, lock, [&] {
    absent = absent_from(gathers_.at(key));
    return absent.names.empty() || absent.gone.has_value() || failed_.has_value();
  });
  const Gathered values = std::move(gathers_.at(key));
  gathers_.erase(key);
  if (absent.gone) throw gone_error(*absent.gone, topic);
  if (!absent.names.empty() && failed_) throw failed_error(topic);
  if (!absent.names.empty())
    fail(ErrorCode::timeout, absent.names, " of ", size(), " did not come to ", topic, " within ", deadline.limit_s(),
         " s");
  std::vector<std::string> result;
  for (const std::optional<std::string>& value : values) result.push_back(*value);
  return result;
}

// --- the mesh thread's side ---

void MeshLedger::answered(std::uint64_t id, int peer, std::string answer, std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  Call& call = *found->second;
  require(call.peer == peer, "an answer to a question that was asked of another rank");
  if (call.done) return;  // its waiter reads it already
  call.answer = std::move(answer);
  call.error = std::move(error);
  call.done = true;
  changed_.notify_all();
}

void MeshLedger::joined(int peer, std::string topic, std::uint64_t ordinal, std::string value) {
  const std::lock_guard lock(mutex_);
  gathered({std::move(topic), ordinal})[static_cast<std::size_t>(peer)] = std::move(value);
  changed_.notify_all();
}

bool MeshLedger::lose(int peer, PeerGone how, std::string why) {
  const std::lock_guard lock(mutex_);
  PeerRecord& one = at(peer);
  if (one.gone != PeerGone::no) return false;
  one.gone = how;
  one.why = std::move(why);
  for (auto& [id, call] : calls_) {
    if (call->peer != peer || call->done) continue;
    call->error.emplace(gone_error(peer, call->topic));
    call->done = true;
  }
  changed_.notify_all();
  return true;
}

void MeshLedger::fail_all(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  failed_ = reason;
  for (auto& [id, call] : calls_) {
    if (call->done) continue;
    call->error.emplace(failed_error(call->topic));
    call->done = true;
  }
  changed_.notify_all();
}

void MeshLedger::close() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, call] : calls_) {
    if (call->done) continue;
    call->error.emplace(ErrorCode::closed, concat(call->topic, ": rank ", rank_, " left the world meanwhile"));
    call->done = true;
  }
  changed_.notify_all();
}

}  // namespace onstream
