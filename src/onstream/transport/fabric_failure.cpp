// How a world fails, and how its calls tell so: the causes that this rank finds or hears of, faults off the board, and
// the errors that calls throw with the story.
//
// Order matters where a cause goes to the mesh, the board and the network: see fail_world() and tell_cause().
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "onstream/base/log.hpp"
#include "onstream/bootstrap/wire.hpp"
#include "onstream/transport/fabric_implementation.hpp"

namespace onstream {

namespace {

constexpr double kSettleS = 0.3;  // six times the beat at which a host looks for faults of its kernels
constexpr const char* kLeft = "this rank closed the world while others of its threads were inside calls";

}  // namespace

const char* Fabric::Implementation::topic_of(Cause cause) {
  switch (cause) {
    case Cause::interrupt: return "interrupt";
    case Cause::deadline: return "deadline";
    case Cause::failure: break;
  }
  return "abort";
}

void Fabric::Implementation::take_death(int peer, const std::string& why, Logged logged) {
  fault_log_.add_death(peer);
  fail_world(why, Cause::failure, logged);
}

void Fabric::Implementation::fail_world(const std::string& reason, Cause cause, Logged logged) {
  std::vector<int> gone;
  for (int peer = 0; peer < launch_.size; ++peer) {
    if (peer != launch_.rank && !mesh_.alive(peer)) gone.push_back(peer);
  }
  const bool quiet = cause == Cause::interrupt;
  const bool first = fault_log_.begin({reason, cause, !quiet && logged != Logged::by_another}, gone);
  const LogLevel level = logged == Logged::now ? LogLevel::error : LogLevel::info;
  if (first) log(quiet ? LogLevel::debug : level, "the world failed: ", reason);
  hosts_.fail();  // before the waits end: their calls end it for good before they return
  board_->set_abort(cause);
  mesh_.fail_all(reason);  // last: a thread that it wakes finds the world failed
}

void Fabric::Implementation::abort(const std::string& reason, Cause cause, Logged logged) {
  guard_.check("this world");
  fail_world(reason, cause, logged);
  tell_cause();
}

// Deaths go first: a rank that hears of the failure knows the dead ranks.
void Fabric::Implementation::tell_cause() {
  const FaultLog::First first = fault_log_.first();
  const std::vector<int> dead = fault_log_.failure().dead;
  for (int peer = 0; peer < launch_.size; ++peer) {
    if (peer == launch_.rank) continue;
    for (const int one : dead) tell_death(peer, one, first.reason);
    mesh_.notify(peer, topic_of(first.cause), first.reason);
  }
}

void Fabric::Implementation::tell_death(int listener, int dead, const std::string& why) {
  if (listener == dead) return;
  mesh_.notify(listener, "death", wire::Packer().u32(static_cast<std::uint32_t>(dead)).text(why).body());
}

void Fabric::Implementation::late(const std::string& what) {
  note_reported();
  const std::string reason = concat("rank ", launch_.rank, ": ", what);
  abort(reason);
  throw Error(ErrorCode::timeout, concat(what, '\n', story_of(*failure(), reason)));
}

void Fabric::Implementation::leave() {
  guard_.check("this world");
  leaving_.store(true, std::memory_order_release);
  failed_by_leaving_ = fault_log_.begin({kLeft, Cause::interrupt, false}, {});
  board_->set_abort(Cause::interrupt);
  mesh_.fail_all(kLeft);  // last: a thread that it wakes finds the world left
}

void Fabric::Implementation::look_at_board() {
  guard_.check("this world");
  const std::lock_guard looking(board_mutex_);
  if (!board_->has_news()) return;
  for (const Board::Collected& news : board_->collect()) {
    FaultReport report = news.report;
    report.timeout_s = parameters_.timeout_s;
    report.word = segments_.place_of(reinterpret_cast<const void*>(report.word.at));
    const bool late = report.status == Status::timeout && report.plan == 0;
    if (late && (report.op == OpKind::recv || report.op == OpKind::probe) && look_aside_) look_aside_(report);
    if (news.tell_peer && report.peer != launch_.rank) {
      const FaultReport theirs{.rank = report.peer,
                               .status = report.status,
                               .op = OpKind::send,
                               .peer = launch_.rank,
                               .tag = report.tag,
                               .bytes = report.extra,
                               .extra = report.bytes};
      mesh_.notify(report.peer, "send.fault", pack_fault(theirs));
    }
    take(report, news.owed ? FaultLog::ReportedBy::by_call : FaultLog::ReportedBy::by_world);
  }
}

void Fabric::Implementation::set_look_aside(std::function<void(FaultReport&)> look) {
  const std::lock_guard looking(board_mutex_);
  look_aside_ = std::move(look);
}

void Fabric::Implementation::take(FaultReport report, FaultLog::ReportedBy reported) {
  if (!fault_log_.add(report, reported) || leaving()) return;
  if (report.status == Status::timeout) is_late_.store(true, std::memory_order_relaxed);
  for (int peer = 0; peer < launch_.size; ++peer) {
    if (peer != launch_.rank) mesh_.notify(peer, "fault", pack_fault(report));
  }
  if (report.status != Status::aborted) {
    abort(describe(report), report.status == Status::timeout ? Cause::deadline : Cause::failure);
  } else if (const std::string who = left_by(report); !who.empty() && !board_->aborted()) {
    abort(concat(who, " left the world, and rank ", report.rank, " still waited for it: ", what_of(report)));
  }
  if (report.status == Status::timeout) hint_at_cause();
}

void Fabric::Implementation::report_timeout(const std::string& what) {
  is_late_.store(true, std::memory_order_relaxed);
  abort(described_late(concat("rank ", launch_.rank, ": ", what), parameters_.timeout_s), Cause::deadline);
  hint_at_cause();
}

void Fabric::Implementation::hint_at_cause() {
  if (const std::string hint = device_->timeout_hint(); !hint.empty()) log_once(LogLevel::warn, hint, hint);
}

// In the watch's thread: nothing may escape.
void Fabric::Implementation::take_from_watch(FaultReport report) {
  report.rank = launch_.rank;
  try {
    take(report);
  } catch (const std::exception& error) {
    abort(concat("rank ", launch_.rank, ": ", error.what()));
  }
}

// The peer that left while an op of this rank still waited; "" if none did. A kernel that waits for several peers at
// once may name another of them.
std::string Fabric::Implementation::left_by(const FaultReport& fault) const {
  if (fault.peer < 0) return board_->all_left() ? "every other rank" : "";
  if (board_->has_left(fault.peer)) return concat("rank ", fault.peer);
  for (int peer = 0; peer < launch_.size; ++peer) {
    if (board_->has_left(peer)) return concat("rank ", peer);
  }
  return "";
}

// For waits that leave() has ended.
void Fabric::Implementation::check_left() const {
  if (leaving()) throw Error(ErrorCode::closed, concat("rank ", launch_.rank, ": ", kLeft));
}

void Fabric::Implementation::end_network() const {
  if (hosts_.network() != nullptr) hosts_.network()->turn();
}

bool Fabric::Implementation::has_failed() {
  guard_.check("this world");
  if (board_->has_news()) look_at_board();
  return board_->aborted();
}

void Fabric::Implementation::check_unreported() {
  if (!has_failed() || leaving() || reported_.load(std::memory_order_acquire)) return;
  if (fault_log_.has_fatal() || is_untold_.load(std::memory_order_acquire)) check_waited();
}

void Fabric::Implementation::check() {
  if (!has_failed()) return;
  end_network();
  note_reported();
  check_left();
  const std::string story = settled_failure("")->story;
  throw Error(is_late_.exchange(false, std::memory_order_relaxed) ? ErrorCode::timeout : ErrorCode::aborted, story);
}

void Fabric::Implementation::check_waited() {
  if (!has_failed()) return;
  end_network();
  note_reported();
  check_left();
  const Failure failure = *settled_failure("");
  const bool late = std::ranges::any_of(failure.faults, [this](const FaultReport& fault) {
    return fault.rank == launch_.rank && fault.status == Status::timeout;
  });
  const bool unreported = is_late_.exchange(false, std::memory_order_relaxed);
  throw Error(late || unreported ? ErrorCode::timeout : ErrorCode::aborted, failure.story);
}

void Fabric::Implementation::check_waited(Status ended) {
  if (!has_failed()) return;
  end_network();
  note_reported();
  check_left();
  if (ended == Status::timeout) is_late_.store(false, std::memory_order_relaxed);
  throw Error(ended == Status::timeout ? ErrorCode::timeout : ErrorCode::aborted, settled_failure("")->story);
}

void Fabric::Implementation::check_for(std::string_view topic, DidNot what_happened) {
  try {
    check();
  } catch (const Error& error) {
    fail_named(what_happened, launch_.rank, topic, error);
  }
}

std::optional<Failure> Fabric::Implementation::settled_failure(const std::string& reported) {
  for (;;) {
    std::optional<Failure> now = failure();
    if (!now) return now;
    if (leaving() || !unheard(*now, launch_.rank) ||
        now_ns() > fault_log_.failed_at_ns() + static_cast<std::uint64_t>(kSettleS * 1e9)) {
      now->story = story_of(*now, reported);
      return now;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::optional<Failure> Fabric::Implementation::failure() {
  look_at_board();
  if (!board_->aborted()) return std::nullopt;
  Failure failure = fault_log_.failure();
  failure.ahead = ahead_;
  failure.story = story_of(failure);
  return failure;
}

void Fabric::set_look_aside(std::function<void(FaultReport&)> look) {
  implementation_->set_look_aside(std::move(look));
}
void Fabric::abort(const std::string& reason, Cause cause, Logged logged) {
  implementation_->note_reported();  // the program itself says so
  implementation_->abort("aborted: " + reason, cause, logged);
  implementation_->end_network();
}
void Fabric::abort_untold(const std::string& reason) {
  implementation_->is_untold_.store(true, std::memory_order_release);
  implementation_->abort("aborted: " + reason, Cause::failure, Logged::now);
  implementation_->end_network();
}
void Fabric::leave() { implementation_->leave(); }
bool Fabric::leaving() const { return implementation_->leaving(); }
void Fabric::report_timeout(const std::string& what) { implementation_->report_timeout(what); }
void Fabric::check() const { implementation_->check(); }
void Fabric::note_timeout_reported() const { implementation_->is_late_.store(false, std::memory_order_relaxed); }
void Fabric::check_unreported() const { implementation_->check_unreported(); }
void Fabric::check_waited() const { implementation_->check_waited(); }
void Fabric::check_waited(Status ended) const { implementation_->check_waited(ended); }
std::optional<Failure> Fabric::failure() const {
  auto failure = implementation_->failure();
  if (failure) implementation_->note_reported();
  return failure;
}
std::optional<Failure> Fabric::settled_failure(const std::string& reported) const {
  implementation_->note_reported();
  return implementation_->settled_failure(reported);
}
void Fabric::name_plan(std::uint64_t number, const std::string& name, std::vector<int> tags) {
  implementation_->fault_log_.name_plan(number, name, std::move(tags));
}
std::vector<FaultReport> Fabric::take_faults() {
  implementation_->look_at_board();
  return implementation_->fault_log_.take();
}
std::optional<FaultReport> Fabric::reported(const FaultReport& fault) {
  implementation_->look_at_board();
  return implementation_->fault_log_.reported(fault);
}

}  // namespace onstream
