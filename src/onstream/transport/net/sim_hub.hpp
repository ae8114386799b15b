// All that the simulated networks of one name share: messages, lent memory and faults, under one lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "onstream/base/fd.hpp"
#include "onstream/transport/net/sim.hpp"

namespace onstream::net {

enum class SimKind { message, offer, taken, released, lost };

// Something that arrives at a rank, and the event that it becomes.
struct SimParcel {
  SimKind kind = SimKind::message;
  int from = 0;  // the rank itself for `released`
  std::string secret{};
  std::vector<std::byte> header{};
  std::vector<std::byte> payload{};
  std::uint64_t offer = 0;  // of offer and taken
  std::uint64_t bytes = 0;  // of offer
  std::uint64_t token = 0;  // of taken and released
  std::string why{};        // of lost
};

// Memory that a sender has lent.
struct SimLoan {
  int to = 0;
  std::vector<std::byte> header{};
  Bytes payload{};
  std::uint64_t token = 0;
};

enum class SimOfferState { offered, taking, lost };

struct SimOffer {
  int from = 0;
  std::uint64_t bytes = 0;
  std::span<std::byte> place{};
  SimOfferState state = SimOfferState::offered;
};

struct SimDue {
  std::uint64_t turn;   // of the receiver
  std::uint64_t order;  // among those of one turn
  auto operator<=>(const SimDue&) const = default;
};

// A rank's side.
struct SimPort {
  std::string secret;
  std::set<int> peers;  // connected, and not lost
  std::set<int> lost;
  std::uint64_t turns = 0;
  std::multimap<SimDue, SimParcel> inbox;
  std::vector<SimLoan> in_place;               // read at the next turn
  std::map<std::uint64_t, SimLoan> offered;    // by the number of the offer
  std::map<std::uint64_t, SimOffer> received;  // likewise
  std::map<int, std::uint64_t> sent;           // messages, by receiver
  std::map<int, std::uint64_t> last_turn;      // of a message's arrival, by receiver
  std::uint64_t in_place_sends = 0;
  std::uint64_t strangers = 0;  // messages that another secret sent
  Fd bell;
  bool armed = false;
  bool stopped = false;
  bool dead = false;
};

class SimHub final : public SimNetworks, public std::enable_shared_from_this<SimHub> {
 public:
  SimHub(std::string name, const SimOptions& options) : name_(std::move(name)), options_(options) {}
  const SimOptions& options() const { return options_; }
  std::unique_ptr<Network> open(int rank, const std::string& secret, NetworkEvents& events) override;
  void cut(int one, int other) override;
  void heal(int one, int other) override;
  void lose(int rank) override;
  void stop(int rank) override;
  void go(int rank) override;

  // For the network of a rank, as network.hpp has them.
  std::string address(int rank) const;
  std::string describe(int rank) const;
  void connect(int rank, int peer, const std::string& address);
  void disconnect(int rank, int peer);
  void send(int rank, int peer, Bytes header, Bytes payload);
  bool send_in_place(int rank, const SimLoan& loan);
  void offer(int rank, const SimLoan& loan);
  void take(int rank, std::uint64_t offer, std::span<std::byte> place, std::uint64_t token);
  void refuse(int rank, std::uint64_t offer);
  int descriptor(int rank);
  bool arm(int rank);
  void close(int rank);
  // A turn of the rank, and then the parcels that arrive in it, until there are none.
  void begin_turn(int rank);
  std::optional<SimParcel> next(int rank);

 private:
  SimPort& sender(int rank, const SimLoan& loan);
  bool reaches(int rank, int peer) const;
  bool is_blocked(int rank, const SimParcel& parcel) const;
  std::uint64_t draw(int from, int to, std::uint64_t number) const;
  void post(int from, int to, SimParcel parcel);
  void put(int rank, SimParcel parcel);
  SimParcel message_of(int rank, const SimLoan& loan) const;
  bool arrives(int rank, SimParcel& parcel);
  bool move_data(int rank, const SimParcel& parcel);
  void read_in_place(int rank);
  void take_back(int rank, int peer);
  void lose_offers(int rank, int peer);
  void lose_peer(int rank, int peer, const std::string& why);
  void leave(int rank, int peer, const std::string& why);
  void ring(SimPort& port);

  const std::string name_;
  const SimOptions options_;
  mutable std::mutex mutex_;
  std::map<int, SimPort> ports_;
  std::set<std::pair<int, int>> cuts_;
  std::uint64_t next_offer_ = 1;
  std::uint64_t next_order_ = 0;
};

}  // namespace onstream::net
