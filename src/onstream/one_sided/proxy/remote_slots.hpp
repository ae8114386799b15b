// RemoteSlots: the slots in which this rank asks the proxies of ranks on other hosts (proxy.hpp).
//
// A slot of a rank of this host lies in that rank's memory. One of another host lies here, and the asking op finds the
// same words in it, the same room for bytes, and the same receipt. The network carries the request over, with the bytes
// of a put; the target carries it out as it arrives; and its receipt brings the bytes of a get:
//
//   slot of the asker -> network -> memory of the target -> network -> slot of the asker
//
// Requests may overtake each other: an op that comes behind another waits for its receipt first.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "onstream/one_sided/proxy/request.hpp"
#include "onstream/transport/fabric.hpp"
#include "onstream/transport/net/proxy.hpp"

namespace onstream::one_sided {

class RemoteSlots final : public net::NetworkService {
 public:
  // Carries out a request of a peer on this rank's memory. `data` has room for kChunkBytes. False: the world has
  // failed.
  using Perform = std::function<bool(int asker, const ProxyRequest& request, std::byte* data)>;
  RemoteSlots(const Fabric& fabric, Perform perform);
  ~RemoteSlots() override;

  static constexpr std::size_t kSlots = 8;
  static constexpr std::size_t kChunkBytes = net::kMaxSendBytes;

  ProxyRequest* slot(int peer, std::size_t number) const;
  // Not 0: a slot of the peer's has a request, which was written before. One word a peer, all side by side: slots lie
  // far apart, and every wait looks.
  std::uint64_t* asks(int peer) const { return asks_ + peer; }
  // Comes before any op asks the peer. For any thread.
  void open(int peer);
  // For a graph, which may outlive this object.
  const std::shared_ptr<std::byte>& memory() const { return memory_; }

  bool look() override;
  void on_message(int peer, net::Bytes header, net::Bytes payload) override;
  void on_released(std::uint64_t token) override;
  void on_lost(int peer) override;

 private:
  // A slot whose request is under way.
  struct SlotState {
    bool asked = false;
    bool lent = false;      // the network still reads the bytes
    bool answered = false;  // the receipt is here
  };
  struct PeerSlots {
    std::atomic<bool> opened = false;
    bool lost = false;
    std::array<SlotState, kSlots> slots;
  };
  void ask(int peer, std::size_t number, const ProxyRequest& request);
  void carry_out(int peer, std::uint32_t number, const ProxyRequest& request, net::Bytes payload);
  void take_receipt(int peer, std::size_t number, net::Bytes payload);
  void end_if_over(int peer, std::size_t number);
  PeerSlots& of(int peer) { return peers_[static_cast<std::size_t>(peer)]; }

  std::shared_ptr<net::NetworkProxy> network_;
  Perform perform_;
  std::shared_ptr<std::byte> memory_;
  std::uint64_t* asks_;           // in memory_
  std::vector<PeerSlots> peers_;  // by rank
  std::vector<int> open_;
  std::vector<std::byte> reply_;
};

}  // namespace onstream::one_sided
