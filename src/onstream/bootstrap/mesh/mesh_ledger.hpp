// The mesh's bookkeeping: which peers are still here, which requests wait for their answers, which gathers for their
// ranks.
//
// No sockets. Callers wait here; the mesh's thread reports the frames that came. Thread-safe; only the await_ functions
// block.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"

namespace onstream {

class MeshLedger {
 public:
  enum class PeerGone { no, left, died };

  MeshLedger(int rank, int size) : rank_(rank), peers_(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(peers_.size()); }
  // Before any other thread calls: how errors name the peer.
  void set_process(int peer, int pid, std::string other_host) {
    at(peer).pid = pid;
    at(peer).other_host = std::move(other_host);
  }
  int pid(int peer) const { return at(peer).pid; }
  std::string name_of(int peer) const;  // "rank 2 (pid 71)", "rank 3 (pid 71 on node2)"
  bool alive(int peer) const;

  // --- the caller's side ---
  // A request that is about to be sent under `id`. Throws aborted or closed when the peer is gone.
  void expect(std::uint64_t id, int peer, std::string_view topic);
  // The answer. Throws the error of the peer's handler, timeout, or aborted or closed when the peer went meanwhile.
  std::string await_answer(std::uint64_t id, Deadline deadline);
  // This rank's part of the next gather of the topic; returns its ordinal, which the other ranks must be told with it.
  std::uint64_t join(std::string_view topic, std::string_view mine);
  // All parts. Throws timeout naming the ranks that did not come, or aborted or closed naming one that never will.
  std::vector<std::string> await_gather(std::string_view topic, std::uint64_t ordinal, Deadline deadline);

  // --- the mesh thread's side ---
  // Throws invalid_argument when the request was another peer's; one given up at its deadline is passed over.
  void answered(std::uint64_t id, int peer, std::string answer, std::optional<Error> error);
  void joined(int peer, std::string topic, std::uint64_t ordinal, std::string value);
  // True the first time. All that waits for the peer fails.
  bool lose(int peer, PeerGone how, std::string why);
  // The mesh ends: fails all requests that still wait.
  void close();
  // From any thread: the world has failed. All that waits, now or later, throws aborted with this reason.
  void fail_all(const std::string& reason);

 private:
  struct PeerRecord {
    int pid = 0;
    std::string other_host;  // "" if it is this rank's
    PeerGone gone = PeerGone::no;
    std::string why;
  };
  struct Call {
    int peer = -1;
    std::string topic;
    bool done = false;
    std::optional<Error> error;
    std::string answer;
  };
  using GatherKey = std::pair<std::string, std::uint64_t>;  // topic, ordinal
  using Gathered = std::vector<std::optional<std::string>>;
  // The ranks missing from a gather, as text, and one of them that is gone.
  struct Absent {
    std::string names;
    std::optional<int> gone;
  };

  PeerRecord& at(int peer) { return peers_.at(static_cast<std::size_t>(peer)); }
  const PeerRecord& at(int peer) const { return peers_.at(static_cast<std::size_t>(peer)); }
  // These need mutex_.
  Error gone_error(int peer, std::string_view topic) const;
  Error failed_error(std::string_view topic) const;
  Absent absent_from(const Gathered& values) const;
  Gathered& gathered(GatherKey key);

  const int rank_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PeerRecord> peers_;
  std::map<std::uint64_t, std::shared_ptr<Call>> calls_;
  std::map<std::string, std::uint64_t, std::less<>> ordinals_;
  std::map<GatherKey, Gathered> gathers_;
  std::optional<std::string> failed_;
};

}  // namespace onstream
