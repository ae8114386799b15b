// The network proxy: the one owner of this rank's Network, and the thread that serves it while nobody else does.
//
// Whoever waits moves the network along itself (turn()): a blocking call and a stream's thread need no other thread to
// wake up. The proxy's own thread sleeps on the network's descriptor, and looks once a millisecond while others turn.
// Services divide the messages among them: each has a number, which is the first byte of every header, and looks at the
// words that its ops write. Thread-safe.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/device/kernel/host_turn.hpp"
#include "onstream/transport/net/network.hpp"

namespace onstream::net {

// A part of the library that has messages of its own. All calls come with the network in hand, in any thread, and may
// use Sender.
class NetworkService {
 public:
  virtual ~NetworkService() = default;
  // Sends what this rank's ops have written since; true if there was anything.
  virtual bool look() { return false; }
  // The header without the service's number.
  virtual void on_message(int peer, Bytes header, Bytes payload) = 0;
  // Of a service that sends all at once none comes: this throws invalid_argument.
  virtual void on_offer(int peer, Bytes header, std::uint64_t bytes, std::uint64_t offer);
  virtual void on_taken(std::uint64_t /*token*/) {}
  virtual void on_released(std::uint64_t /*token*/) {}
  virtual void on_lost(int peer) = 0;
};

enum class ServiceNumber : std::uint8_t { messages = 0, exchanges, one_sided, teams, count };

class NetworkProxy final : public NetworkEvents {
 public:
  using Open = std::function<std::unique_ptr<Network>(NetworkEvents&)>;
  // `on_lost` and `on_left` are called with the network in hand.
  struct Hooks {
    std::function<void(int peer, const std::string& why)> on_lost;
    std::function<void(int peer)> on_left;
    std::function<void(const std::string& why)> on_failure;  // of the network itself
  };

  NetworkProxy(int size, const Open& open, Hooks hooks);
  ~NetworkProxy() override;
  NetworkProxy(const NetworkProxy&) = delete;
  NetworkProxy& operator=(const NetworkProxy&) = delete;

  std::string address() const { return network_->address(); }
  const std::string& describe() const { return described_; }
  void connect(int peer, const std::string& address);
  void start();
  // Ends the thread and the network. Messages that were sent before still go out.
  void stop();
  // The world has failed: the next turn() of any thread, or the proxy's own thread, ends the network. No memory of the
  // program is touched from then on. For any thread, also inside of events.
  void fail();

  // Before any peer can send to the service, and until it is withdrawn.
  void serve(ServiceNumber number, NetworkService& service);
  void withdraw(ServiceNumber number);

  // Moves the network along; true if anything happened. Returns at once where another thread is at it, which then looks
  // once more.
  bool turn();
  // Sleeps until the network has something, for at most so long.
  void nap(std::uint64_t at_most_ns);
  // For waits of this world's ops (device/kernel/host_turn.hpp); valid as long as the proxy.
  HostTurn* host_turn() { return &host_turn_; }

  // A peer has said over the mesh that it sent so many messages in all, and leaves: on_left() once they have all come.
  void peer_leaves(int peer, std::uint64_t sent);
  // Sends what ops have written, and returns the messages sent to each peer in all.
  std::vector<std::uint64_t> last_turn();
  // When the network was moved last, for proof that this rank's proxy turns.
  std::uint64_t turned_at_ns() const { return turned_at_ns_.load(std::memory_order_relaxed); }

  // For services: inside their calls, or inside with().
  void send(ServiceNumber service, int peer, Bytes header, Bytes payload);
  bool send_in_place(ServiceNumber service, int peer, Bytes header, Bytes payload, std::uint64_t token);
  void offer(ServiceNumber service, int peer, Bytes header, Bytes payload, std::uint64_t token);
  void take(ServiceNumber service, std::uint64_t offer, std::span<std::byte> place, std::uint64_t token);
  void refuse(std::uint64_t offer);
  // Runs with the network in hand.
  template <class Function>
  auto with(const Function& function) {
    const Turning behind{*this};
    const std::lock_guard lock(hands_);
    return function();
  }

  void on_message(int peer, Bytes header, Bytes payload) override;
  void on_offer(int peer, Bytes header, std::uint64_t bytes, std::uint64_t offer) override;
  void on_taken(std::uint64_t token) override;
  void on_released(std::uint64_t token) override;
  void on_lost(int peer, const std::string& why) override;

 private:
  struct Counts {
    std::atomic<std::uint64_t> sent = 0;
    std::uint64_t heard = 0;
    std::uint64_t promised = 0;
    bool leaves = false;
    bool lost = false;
  };
  // Behind a use of the network: another thread may have asked for a turn meanwhile.
  struct Turning {
    NetworkProxy& proxy;
    ~Turning() {
      if (proxy.wanted_.load(std::memory_order_seq_cst)) proxy.turn();
    }
  };
  static std::size_t at(int peer) { return static_cast<std::size_t>(peer); }
  Bytes full_header(ServiceNumber service, Bytes header);
  NetworkService* service_of(Bytes header);
  bool move();
  void serve_alone();
  void hear(int peer);
  void look_whether_left(int peer);

  // Held while the network is in hand. An event, or a signal handler, may ask for it in vain in the thread that holds
  // it.
  class Hands {
   public:
    bool try_lock() {
      std::uintptr_t nobody = 0;
      return owner_.compare_exchange_strong(nobody, this_thread(), std::memory_order_acquire);
    }
    void lock();  // throws invalid_argument in the thread that holds it
    bool held_here() const { return owner_.load(std::memory_order_relaxed) == this_thread(); }
    // The fence keeps a look at wanted_ behind it.
    void unlock() {
      owner_.store(0, std::memory_order_release);
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }

   private:
    static std::uintptr_t this_thread() {
      static thread_local char mine;
      return reinterpret_cast<std::uintptr_t>(&mine);
    }
    std::atomic<std::uintptr_t> owner_ = 0;
  };
  Hands hands_;
  std::atomic<bool> failed_ = false;
  std::atomic<bool> wanted_ = false;
  std::atomic<std::uint64_t> turned_at_ns_ = 0;
  std::atomic<std::uint64_t> turns_of_others_ = 0;
  std::atomic<bool> stopping_ = false;
  Hooks hooks_;
  std::vector<Counts> counts_;
  std::array<NetworkService*, static_cast<std::size_t>(ServiceNumber::count)> services_{};
  std::array<std::byte, kMaxHeaderBytes> header_{};
  std::unique_ptr<Network> network_;
  std::string described_;
  HostTurn host_turn_;
  Fd waker_;
  std::thread thread_;
};

}  // namespace onstream::net
