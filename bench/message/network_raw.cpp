// A ping-pong of two processes over a Network alone, without a world: the floor under messages between hosts.
//
//   bench_network_raw RANK FOLDER [ROUNDS]      once with RANK 0 and once with 1; FOLDER is one that both see
//
// Half a round trip, the median of ROUNDS, is printed by rank 0: eager, both hosts spin. Settings come from the
// environment (ONSTREAM_UCX_LIBRARY, ONSTREAM_UCX_WHEEL, ONSTREAM_NETWORK_INTERFACE).
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/parameters.hpp"
#include "onstream/transport/net/networks.hpp"

namespace {

using namespace onstream;

constexpr std::size_t kStreamBytes = std::size_t{4} << 20;
constexpr int kStreamed = 32;
enum class Way { send, in_place, offer };

class Side : public net::NetworkEvents {
 public:
  void on_message(int, net::Bytes, net::Bytes) override { ++arrived; }
  void on_offer(int, net::Bytes, std::uint64_t, std::uint64_t offer) override { network->take(offer, place, 0); }
  void on_taken(std::uint64_t) override { ++arrived; }
  void on_released(std::uint64_t) override { ++released; }
  void on_lost(int, const std::string& why) override { fail(ErrorCode::aborted, "the other side is gone: ", why); }

  void send(Way way, net::Bytes payload) {
    if (way == Way::send) network->send(peer, {}, payload);
    if (way == Way::in_place && network->send_in_place(peer, {}, payload, 0)) ++released;
    if (way == Way::offer) network->offer(peer, {}, payload, 0);
    lent += way == Way::send ? 0 : 1;
  }
  void wait(std::uint64_t arrivals) {
    const Deadline deadline(60);
    while (arrived < arrivals || released < lent) {
      (void)network->progress();
      if (deadline.passed()) fail(ErrorCode::timeout, "nothing came for ", deadline.limit_s(), " s");
    }
  }

  int peer = 0;
  std::uint64_t arrived = 0;
  std::uint64_t released = 0;
  std::uint64_t lent = 0;
  std::vector<std::byte> place = std::vector<std::byte>(kStreamBytes);
  std::unique_ptr<net::Network> network;
};

void write_file(const std::string& file, const std::string& text) {
  const Fd out(::open((file + ".part").c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600));
  if (!out.valid() || ::write(out.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail_errno("cannot write " + file);
  if (::rename((file + ".part").c_str(), file.c_str()) != 0) fail_errno("cannot write " + file);
}

void meet(Side& side, int rank, const std::string& folder) {
  const Parameters parameters = Parameters::from_environment();
  net::NetworkSettings settings{.kind = parameters.network, .rank = rank, .size = 2, .secret = "bench"};
  settings.interface = parameters.network_interface;
  settings.library = parameters.ucx_library;
  settings.wheel = parameters.ucx_wheel;
  side.network = net::open_network(settings, side);
  side.peer = 1 - rank;
  write_file(concat(folder, "/address.", rank), side.network->address());
  std::string other;
  for (const Deadline deadline(30); other.empty() && !deadline.passed(); ::usleep(1000))
    other = contents_of(concat(folder, "/address.", side.peer));
  side.network->connect(side.peer, other);
}

// Half a round trip, us.
double ping_pong(Side& side, int rank, Way way, std::size_t bytes, int rounds) {
  const std::vector<std::byte> data(bytes);
  std::vector<double> times;
  for (int round = -rounds / 10; round < rounds; ++round) {
    const std::uint64_t start = now_ns();
    const std::uint64_t next = side.arrived + 1;
    if (rank == 0) side.send(way, data);
    side.wait(next);
    if (rank == 1) side.send(way, data);
    if (round >= 0) times.push_back(static_cast<double>(now_ns() - start) / 2000.0);
  }
  side.wait(side.arrived);
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

// From rank 0 to rank 1, many offers at once; GB/s.
double stream(Side& side, int rank) {
  const std::vector<std::byte> data(kStreamBytes);
  const std::uint64_t start = now_ns();
  if (rank == 0) {
    for (int i = 0; i < kStreamed; ++i) side.send(Way::offer, data);
    side.wait(side.arrived + 1);
  } else {
    side.wait(side.arrived + kStreamed);
    side.send(Way::send, {});
  }
  return static_cast<double>(kStreamBytes) * kStreamed / static_cast<double>(now_ns() - start);
}

void print_row(const char* name, std::size_t bytes, double value, const char* unit) {
  std::printf("%-9s %8zu B  %8s %s\n", name, bytes, general(value, 4).c_str(), unit);
  std::fflush(stdout);
}

void run(int rank, const std::string& folder, int rounds) {
  struct Row {
    const char* name;
    Way way;
    std::size_t bytes;
  };
  constexpr Row kRows[] = {
      {"send", Way::send, 8},         {"send", Way::send, 4096},         {"send", Way::send, 65536},
      {"in place", Way::in_place, 8}, {"in place", Way::in_place, 4096}, {"in place", Way::in_place, 65536},
      {"offer", Way::offer, 65536},   {"offer", Way::offer, 1048576},
  };
  Side side;
  meet(side, rank, folder);
  for (const Row& row : kRows) {
    const double us = ping_pong(side, rank, row.way, row.bytes, row.bytes > 100000 ? rounds / 10 : rounds);
    if (rank == 0) print_row(row.name, row.bytes, us, "us one way");
  }
  const double rate = stream(side, rank);
  if (rank == 0) print_row("stream", kStreamBytes, rate, "GB/s");
  if (rank == 0) std::printf("%s\n", side.network->describe().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    require(argc >= 3, "usage: bench_network_raw RANK FOLDER [ROUNDS]");
    run(std::atoi(argv[1]), argv[2], argc > 3 ? std::atoi(argv[3]) : 2000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_network_raw: %s\n", error.what());
    return 1;
  }
  return 0;
}
