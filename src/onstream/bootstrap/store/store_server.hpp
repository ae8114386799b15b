// The server side of the store: one thread, one poll(), in rank 0's process.
//
// A process has at most one server per address, shared by all its worlds (see Meeting) and kept until the last local
// store let go and the last client went: a fast rank may already be in the next world while rank 0 still leaves this
// one. A connection that does not prove the secret within 10 s, or sends anything malformed, is closed without an
// answer and never delays the others.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/bootstrap/socket.hpp"
#include "onstream/bootstrap/store/meeting.hpp"
#include "onstream/bootstrap/store/store_protocol.hpp"
#include "onstream/launch.hpp"

namespace onstream {

class StoreServer {
 public:
  // This process's server for the launch's address, started if there is none. Throws system when the address is taken.
  static std::shared_ptr<StoreServer> acquire(const Launch& launch, Deadline deadline);
  // Balances acquire(). Blocks until all answers given so far are on their way, at most 2 s.
  void release();

  int port() const { return endpoint_.port; }
  // "a process that says it is rank 1 came with another secret", if one has since this was asked or acquired last: it
  // cannot be told why it is not answered, so rank 0 tells. Any thread may ask.
  std::string refused_secret();

  StoreServer(Endpoint endpoint, std::string secret, Fd listener);

 private:
  // One client; a stranger until it proved the secret.
  struct Client {
    Fd socket;
    std::string nonce;
    wire::FrameReader reader;
    std::string out;
    Deadline proof_deadline{10.0};
    bool proved = false;
    bool closing = false;  // close when `out` is empty
    std::uint64_t meeting = 0;
    std::uint64_t process = 0;
    int rank = -1;
  };

  void serve();
  bool finished();  // takes the server out of the registry when nobody needs it
  void accept_strangers();
  void attend(Client& client, short events);
  void hear(Client& client, const wire::Frame& frame);
  void welcome(Client& client, const wire::Frame& frame);
  void refuse(Client& client, const std::string& why);
  // Where a rank of this generation belongs (store_protocol.hpp); a new one if there is none yet.
  std::uint64_t meeting_for(const store_protocol::Hello& hello);
  bool claimed_by_another(const store_protocol::Hello& hello) const;
  void deliver(std::uint64_t meeting, const MeetingAnswers& answers);
  void flush(Client& client);
  void close(Client& client, MeetingAnswers (Meeting::*how)(int));
  void report_drained();

  Endpoint endpoint_;
  const std::string secret_;
  Fd listener_;
  Fd waker_;

  // Used by the serving thread alone.
  std::list<Client> clients_;
  std::map<std::uint64_t, Meeting> meetings_;  // by number, the oldest first
  std::uint64_t last_meeting_ = 0;
  Deadline deaf_until_{0};  // no new connections before: there was no descriptor for one

  std::mutex mutex_;
  std::condition_variable drained_changed_;
  std::atomic<std::int64_t> refused_rank_{-1};  // that came with another secret last
  int users_ = 1;                               // local stores, guarded by the registry's mutex
  std::uint64_t drain_wanted_ = 0;              // guarded by mutex_
  std::uint64_t drain_reached_ = 0;             // guarded by mutex_
};

}  // namespace onstream
