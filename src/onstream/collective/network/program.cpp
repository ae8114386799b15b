#include "onstream/collective/network/program.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "onstream/base/error.hpp"
#include "onstream/collective/call/portions.hpp"
#include "onstream/collective/check/checking.hpp"
#include "onstream/collective/network/reduce.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::collective {

NetworkProgram::NetworkProgram(const ProgramPlace& place, ScratchPool& spares, const CollectiveCall& call)
    : place_(place),
      call_(call),
      size_(static_cast<int>(place.ranks->size())),
      element_(call.combine ? call.element_bytes : size_of(call.type)),
      spares_(spares) {
  make();
}

NetworkProgram::NetworkProgram(const ProgramPlace& place, ScratchPool& spares, const CollectiveCall& call,
                               const std::vector<EdgeMove>& moves)
    : place_(place), call_(call), element_(size_of(call.type)), spares_(spares) {
  Phase phase;
  for (const EdgeMove& move : moves) {
    if (move.out != nullptr && move.in != nullptr) {
      copy(phase, move.in, move.out, move.bytes);
    } else {
      phase.pairs.push_back({&place_.lease->lanes().view(move.world_rank, place_.lane), move.out, move.bytes, move.in,
                             move.bytes, move.out != nullptr, move.in != nullptr});
    }
  }
  phases_.push_back(std::move(phase));
}

void NetworkProgram::make() {
  switch (call_.kind) {
    case OpKind::barrier: return meet();
    case OpKind::all_reduce:
      return is_one_exchange(bytes(), place_.ranks->size()) ? all_reduce_small() : all_reduce_large();
    case OpKind::reduce: return reduce();
    case OpKind::reduce_scatter: return reduce_scatter();
    case OpKind::scan: return scan(false);
    case OpKind::exclusive_scan: return scan(true);
    default: return move();
  }
}

bool NetworkProgram::is_one_exchange(std::size_t bytes, std::size_t ranks) {
  constexpr double kTripBytes = 65536;  // that go over in the time of a trip
  constexpr double kAddTime = 0.4;      // of a byte, by the time in which it goes over
  const auto n = static_cast<double>(ranks);
  return ranks == 1 || static_cast<double>(bytes) * (n - 1) / n * (n - 2 + kAddTime * (n - 1)) <= kTripBytes;
}

std::byte* NetworkProgram::scratch(std::size_t bytes) {
  scratch_bytes_ += bytes;
  return kept_.emplace_back(spares_.lease(bytes)).get();
}

void NetworkProgram::pair(Phase& phase, int peer, const std::byte* out, std::size_t out_bytes, std::byte* in,
                          std::size_t in_bytes) {
  if (peer == place_.rank || (out == nullptr && in == nullptr)) return;
  const int world = (*place_.ranks)[static_cast<std::size_t>(peer)];
  phase.pairs.push_back(
      {&place_.lease->lanes().view(world, place_.lane), out, out_bytes, in, in_bytes, out != nullptr, in != nullptr});
}

void NetworkProgram::copy(Phase& phase, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to == from || bytes == 0) return;
  phase.before.emplace_back([=] { std::memmove(to, from, bytes); });
}

void NetworkProgram::add(Phase& phase, std::byte* out, std::vector<const std::byte*> inputs, std::size_t bytes) {
  if (inputs.empty() || bytes == 0) return;
  phase.behind.emplace_back([=, this, inputs = std::move(inputs)] { sum(out, inputs, bytes); });
}

// Of a program's own function, in is of lower ranks than inout: from the last rank down.
void NetworkProgram::sum(std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t bytes) const {
  if (!call_.combine) return reduce_in_order(call_, out, inputs, bytes / element_, size());
  std::vector<std::byte> sums(inputs.back(), inputs.back() + bytes);
  for (std::size_t i = inputs.size() - 1; i-- > 0;) call_.combine(inputs[i], sums.data(), bytes / element_);
  std::memcpy(out, sums.data(), bytes);
}

// What this rank gives to the others: its input, or its product with this rank's factor.
const std::byte* NetworkProgram::own_input(Phase& phase, std::size_t bytes) {
  const auto* input = static_cast<const std::byte*>(call_.input);
  if (call_.combine || call_.op != ReduceOp::premulsum) return input;
  std::byte* const scaled = scratch(bytes);
  phase.before.emplace_back([=, this] { scale(call_, scaled, input, bytes / element_); });
  return scaled;
}

void NetworkProgram::meet() {
  static std::byte nothing{};
  Phase phase;
  for (int peer = 0; peer < size(); ++peer) pair(phase, peer, &nothing, 0, &nothing, 0);
  phases_.push_back(std::move(phase));
}

void NetworkProgram::move() {
  Phase phase;
  const auto* input = static_cast<const std::byte*>(call_.input);
  auto* const output = static_cast<std::byte*>(call_.output);
  if (overwrites_itself(call_)) {
    const std::size_t all = call_.input_bytes(place_.rank, size());
    std::byte* const kept = scratch(all);
    copy(phase, kept, input, all);
    input = kept;
  }
  for (int peer = 0; peer < size(); ++peer) {
    const Portion portion = portion_of(call_, place_.rank, peer);
    const std::byte* const out = portion.send_bytes > 0 ? input + portion.send_offset : nullptr;
    std::byte* const in = portion.receive_bytes > 0 ? output + portion.receive_offset : nullptr;
    if (peer != place_.rank) {
      pair(phase, peer, out, portion.send_bytes, in, portion.receive_bytes);
    } else if (out != nullptr && in != nullptr) {
      copy(phase, in, out, portion.send_bytes);
    }
  }
  phases_.push_back(std::move(phase));
}

void NetworkProgram::all_reduce_small() {
  Phase phase;
  const std::byte* const mine = own_input(phase, bytes());
  std::byte* const theirs = scratch(bytes() * static_cast<std::size_t>(size()));
  std::vector<const std::byte*> inputs;
  for (int peer = 0; peer < size(); ++peer) {
    std::byte* const in = theirs + bytes() * static_cast<std::size_t>(peer);
    inputs.push_back(peer == place_.rank ? mine : in);
    pair(phase, peer, mine, bytes(), in, bytes());
  }
  add(phase, static_cast<std::byte*>(call_.output), inputs, bytes());
  phases_.push_back(std::move(phase));
}

void NetworkProgram::all_reduce_large() {
  const auto ranks = static_cast<std::size_t>(size());
  const auto begin_of = [&](int rank) { return call_.count * static_cast<std::size_t>(rank) / ranks * element_; };
  const auto bytes_of = [&](int rank) { return begin_of(rank + 1) - begin_of(rank); };
  const std::size_t own = bytes_of(place_.rank);
  auto* const output = static_cast<std::byte*>(call_.output);
  std::byte* const sums = output + begin_of(place_.rank);
  Phase parts;
  Phase results;
  const std::byte* const mine = own_input(parts, bytes());
  std::byte* const theirs = scratch(own * ranks);
  std::vector<const std::byte*> inputs;
  for (int peer = 0; peer < size(); ++peer) {
    std::byte* const in = theirs + own * static_cast<std::size_t>(peer);
    inputs.push_back(peer == place_.rank ? mine + begin_of(place_.rank) : in);
    pair(parts, peer, mine + begin_of(peer), bytes_of(peer), in, own);
    pair(results, peer, sums, own, output + begin_of(peer), bytes_of(peer));
  }
  add(parts, sums, inputs, own);
  phases_.push_back(std::move(parts));
  phases_.push_back(std::move(results));
}

void NetworkProgram::reduce() {
  Phase phase;
  const bool is_root = place_.rank == call_.root;
  const std::byte* const mine = own_input(phase, bytes());
  std::byte* const theirs = is_root ? scratch(bytes() * static_cast<std::size_t>(size())) : nullptr;
  std::vector<const std::byte*> inputs;
  for (int peer = 0; peer < size(); ++peer) {
    if (is_root) {
      std::byte* const in = theirs + bytes() * static_cast<std::size_t>(peer);
      inputs.push_back(peer == place_.rank ? mine : in);
      pair(phase, peer, nullptr, 0, in, bytes());
    } else if (peer == call_.root) {
      pair(phase, peer, mine, bytes(), nullptr, 0);
    }
  }
  add(phase, static_cast<std::byte*>(call_.output), inputs, bytes());
  phases_.push_back(std::move(phase));
}

void NetworkProgram::reduce_scatter() {
  Phase phase;
  const std::byte* const mine = own_input(phase, bytes() * static_cast<std::size_t>(size()));
  std::byte* const theirs = scratch(bytes() * static_cast<std::size_t>(size()));
  std::vector<const std::byte*> inputs;
  for (int peer = 0; peer < size(); ++peer) {
    const std::size_t at = bytes() * static_cast<std::size_t>(peer);
    inputs.push_back(peer == place_.rank ? mine + at : theirs + at);
    pair(phase, peer, mine + at, bytes(), theirs + at, bytes());
  }
  add(phase, static_cast<std::byte*>(call_.output), inputs, bytes());
  phases_.push_back(std::move(phase));
}

void NetworkProgram::scan(bool exclusive) {
  Phase phase;
  const std::byte* const mine = own_input(phase, bytes());
  std::byte* const theirs = scratch(bytes() * static_cast<std::size_t>(size()));
  std::vector<const std::byte*> inputs;
  for (int peer = 0; peer < size(); ++peer) {
    std::byte* const in = theirs + bytes() * static_cast<std::size_t>(peer);
    if (peer < place_.rank) pair(phase, peer, nullptr, 0, in, bytes());
    if (peer > place_.rank) pair(phase, peer, mine, bytes(), nullptr, 0);
    if (peer < place_.rank || (peer == place_.rank && !exclusive)) inputs.push_back(peer == place_.rank ? mine : in);
  }
  add(phase, static_cast<std::byte*>(call_.output), inputs, bytes());
  phases_.push_back(std::move(phase));
}

void NetworkProgram::run() const {
  const std::uint64_t number = place_.lease->lanes().count_call(place_.lane);
  try {
    for (const Phase& phase : phases_) {
      if (!run(phase, number)) return;
    }
  } catch (const std::exception& error) {
    const auto fabric = place_.fabric.lock();
    if (fabric == nullptr) return;
    fabric->abort_untold(concat("the program's own reduction threw on rank ", fabric->rank(), ": ", error.what()));
  }
}

bool NetworkProgram::run(const Phase& phase, std::uint64_t number) const {
  for (const auto& step : phase.before) step();
  const lane::PeerExchange::Ended ended =
      lane::PeerExchange(place_.wait, phase.pairs, signature_of(call_, Algorithm::automatic)).run();
  if (ended.status != Status::ok) {
    fail(ended, number);
    return false;
  }
  for (const auto& step : phase.behind) step();
  return true;
}

void NetworkProgram::fail(const lane::PeerExchange::Ended& ended, std::uint64_t number) const {
  if (ended.status == Status::misused) {
    const auto fabric = place_.fabric.lock();
    if (fabric == nullptr) return;
    const std::string how = ended.other_call ? std::string(" calls another collective, or the same with another count")
                                             : concat(" gives ", ended.theirs, " B where ", ended.bytes, " B belong");
    return fabric->abort_untold(concat("rank ", fabric->rank(), ": ", what_of(call_), ": rank ", ended.peer, how,
                                       "; all ranks make the same calls in the same order on each channel"));
  }
  Fault fault;
  fault.op = static_cast<std::uint64_t>(call_.name());
  fault.peer = static_cast<std::uint64_t>(ended.peer);
  fault.tag = static_cast<std::uint64_t>(call_.channel);
  fault.bytes = ended.bytes;
  fault.extra = number;
  report(HostGroup(0, 1), place_.wait, ended.status, fault);
  place_.lease->lanes()
      .proxy()
      .turn();  // where the world has failed it ends, and touches none of the call's memory any more
}

}  // namespace onstream::collective
