// The records of the network over UCX: a peer, and the operations that UCX still works on.
#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onstream/transport/net/identity.hpp"
#include "onstream/transport/net/network.hpp"

namespace onstream::net {

class UcxNetwork;

// UCX's numbers of our active messages.
constexpr unsigned kUcxMessage = 0;
constexpr unsigned kUcxOffer = 1;

// In front of the caller's header in every message.
struct UcxHeader {
  PairKey key;
  std::int32_t from;
};

enum class UcxPeerState {
  connected,
  failing,  // UCX has told of a failure, or the caller forgets the peer: its endpoint is to be closed
  closing,  // waits for all that UCX still holds
  lost,
};

struct UcxPeer {
  UcxNetwork* network = nullptr;
  int rank = 0;
  std::string contact;
  PairKey sends{};
  PairKey receives{};
  ucp_ep_h endpoint = nullptr;  // from the first message on, in either direction
  UcxPeerState state = UcxPeerState::connected;
  std::string why;
  bool heard = false;       // a message of it came
  int in_flight = 0;        // sends, takes and a close that UCX has not ended
  std::uint64_t since = 0;  // of closing, ns
};

enum class UcxEnd { released, taken, lost };

// An event that waits for its turn in progress(). The token of a loss is the rank.
struct UcxEvent {
  UcxEnd end;
  std::uint64_t token;
};

enum class UcxMemory { copied, lent };

struct UcxSend {
  UcxPeer* peer = nullptr;
  UcxMemory memory = UcxMemory::copied;
  std::uint64_t token = 0;
  std::array<std::byte, sizeof(UcxHeader) + kMaxHeaderBytes> header;
  std::size_t header_bytes = 0;
  std::vector<std::byte> copy;
};

struct UcxTake {
  UcxNetwork* network = nullptr;
  UcxPeer* peer = nullptr;  // none once the peer is given up
  std::uint64_t token = 0;
};

struct UcxOffer {
  int peer = 0;
  void* descriptor = nullptr;   // of UCX, if the data is still at the sender
  std::vector<std::byte> data;  // else
  std::uint64_t bytes = 0;
  bool lost = false;
};

// Objects that are used again, at addresses that stay.
template <class Object>
class UcxPool {
 public:
  Object& get() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Object>());
      free_.push_back(all_.back().get());
    }
    Object* const object = free_.back();
    free_.pop_back();
    return *object;
  }
  void put(Object& object) { free_.push_back(&object); }
  template <class Visit>
  void for_all(const Visit& visit) {
    for (const auto& object : all_) visit(*object);
  }

 private:
  std::vector<std::unique_ptr<Object>> all_;
  std::vector<Object*> free_;
};

}  // namespace onstream::net
