// The plan's kernel as a GPU runs it, without a GPU: many blocks of many threads at once, over plain memory.
//
// The host device has one thread a block and one block a grid. Here the same body runs over a Group whose threads are
// real threads, with the tables that a cuda device would get, so that chunks, parts, tails and the counters between
// blocks are tried on every machine.
#include <atomic>
#include <latch>
#include <memory>
#include <thread>

#include "onstream/device.hpp"
#include "onstream/plan/build/lower.hpp"
#include "onstream/plan/kernel/body.hpp"
#include "onstream/plan/tables.hpp"
#include "support/check.hpp"
#include "support/crowd.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr int kThreads = all_or_few(64, 16);
constexpr int kLaunches = all_or_few(4, 2);

// Threads of a block whose accesses to words are ordered, where those of a GPU are relaxed beside a fence: the thread
// sanitizer sees no order in fences.
class OrderedGroup : public CrowdGroup {
 public:
  using CrowdGroup::CrowdGroup;
  using CrowdGroup::load_relaxed;
  using CrowdGroup::store_relaxed;
  static std::uint64_t load_relaxed(const std::uint64_t* word) { return load_acquire(word); }
  static void store_relaxed(std::uint64_t* word, std::uint64_t value) { store_release(word, value); }
};

class PlainSegment : public Segment {
 public:
  PlainSegment(std::vector<std::byte*> parts, int rank, std::size_t bytes)
      : parts_(std::move(parts)), rank_(rank), bytes_(bytes) {}
  void check_launch() const override {}
  std::byte* local() const override { return peer(rank_); }
  std::byte* peer(int rank) const override { return parts_[static_cast<std::size_t>(rank)]; }
  std::uint64_t address_at(int rank) const override { return reinterpret_cast<std::uint64_t>(peer(rank)); }
  bool direct(int) const override { return true; }
  const std::string& why_not(int) const override { return nothing_; }
  bool direct_everywhere() const override { return true; }
  std::size_t bytes() const override { return bytes_; }
  MemoryKind kind() const override { return MemoryKind::device; }
  std::uint64_t number() const override { return 1; }

 private:
  std::string nothing_;
  std::vector<std::byte*> parts_;
  int rank_;
  std::size_t bytes_;
};

// One rank's part: ops over buffers of its own.
struct Rank {
  std::vector<unsigned char> out;
  std::vector<unsigned char> in;
  std::vector<Op> ops;
};

// Several ranks' plans, built without a fabric, as for cuda devices with `most_blocks` blocks.
class Machine {
 public:
  Machine(std::vector<Rank>& ranks, Path path, int most_blocks)
      : device_(open_device("host", 0)), streams_(std::make_shared<StreamPool>(device_)) {
    std::vector<plan::Statement> statements;
    for (const Rank& rank : ranks) statements.push_back(state(rank, path));
    auto routes = plan::routes_of(statements, plan::match(statements), DeviceKind::cuda);
    for (plan::Route& route : routes) export_buffers(route, ranks);
    plan::choose_paths(routes, statements, path::Table::built_in());
    const std::uint64_t bytes = plan::place(routes, static_cast<int>(ranks.size())).bytes;
    std::vector<std::byte*> parts;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      memories_.push_back(device_->allocate(bytes, MemoryKind::device));
      parts.push_back(memories_.back()->data());
    }
    board_ = device_->allocate(4096 + kFaultSlots * sizeof(Fault), MemoryKind::pinned);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      segments_.push_back(std::make_unique<PlainSegment>(parts, static_cast<int>(r), bytes));
      lower(static_cast<int>(r), ranks[r], routes, most_blocks);
    }
  }

  // One launch on every rank, all at once: none runs, and waits for others by turning, while threads are still made. A
  // rank's blocks start in an order that helps nobody.
  void launch() {
    std::vector<std::thread> threads;
    std::latch made(1);
    std::vector<std::unique_ptr<CrowdBlock>> together;
    for (std::size_t r = 0; r < views_.size(); ++r) {
      const int blocks = blocks_[r];
      for (int block = blocks - 1; block >= 0; --block) {
        together.push_back(std::make_unique<CrowdBlock>(threads_[r]));
        for (int thread = 0; thread < threads_[r]; ++thread) {
          threads.emplace_back(
              [this, r, &made, group = OrderedGroup(*together.back(), thread, {blocks, threads_[r]}, block)] {
                made.wait();
                if (briefs_[r].pack_count + briefs_[r].unpack_count > 0) {
                  briefs_[r](group);
                } else {
                  plan::Body{views_[r]}(group);
                }
              });
        }
      }
    }
    made.count_down();
    for (std::thread& thread : threads) thread.join();
  }

  bool failed() const { return HostGroup::load_acquire(fault_count()) != 0; }
  int blocks(std::size_t rank) const { return blocks_[rank]; }
  const plan::PlanView& view(std::size_t rank) const { return views_[rank]; }
  bool brief(std::size_t rank) const { return briefs_[rank].pack_count + briefs_[rank].unpack_count > 0; }

 private:
  static plan::Statement state(const Rank& rank, Path path) {
    plan::Statement statement;
    statement.name = "grid";
    for (const Op& op : rank.ops) {
      plan::StatedOp stated;
      stated.kind = op.kind;
      stated.peer = op.peer;
      stated.tag = op.tag;
      stated.path = path;
      stated.layout = op.layout.view();
      stated.bytes = op.layout.bytes();
      statement.ops.push_back(stated);
    }
    return statement;
  }

  static void export_buffers(plan::Route& route, const std::vector<Rank>& ranks) {
    const auto address = [&](int rank, int op) {
      return reinterpret_cast<std::uint64_t>(
          ranks[static_cast<std::size_t>(rank)].ops[static_cast<std::size_t>(op)].address);
    };
    route.source_address = address(route.edge.source_rank, route.edge.source_op);
    route.destination_address = address(route.edge.destination_rank, route.edge.destination_op);
    route.transfer.source.mapped = route.transfer.destination.mapped = true;
  }

  std::uint64_t* fault_count() const { return reinterpret_cast<std::uint64_t*>(board_->data()) + 64; }

  void lower(int rank, const Rank& mine, const std::vector<plan::Route>& routes, int most_blocks) {
    std::vector<PlanOp> planned;
    for (const Op& op : mine.ops) planned.push_back({op, op.kind == OpKind::put ? Path::store : Path::automatic, ""});
    const std::vector<std::uint64_t> bases(mine.ops.size(), 0);
    const std::vector<plan::StandIn> stand_ins(mine.ops.size());
    plan::Lowering lowering;
    lowering.rank = rank;
    lowering.ops = &mine.ops;
    lowering.planned = &planned;
    lowering.routes = &routes;
    lowering.counter_bases = &bases;
    lowering.stand_ins = &stand_ins;
    lowering.segment = segments_.back().get();
    lowering.block_bytes = static_cast<std::uint64_t>(Parameters().block_bytes);
    lowering.most_blocks = most_blocks;
    lowering.device = DeviceKind::cuda;
    const plan::Program program = plan::lower(lowering);
    CHECK(!program.two_kernels);
    tables_.push_back(std::make_unique<plan::PlanTables>(*device_, streams_, program, mine.ops.size()));
    plan::PlanView view = tables_.back()->view();
    view.announce_release = program.announce_release;
    view.number = 1;
    view.wait.timeout_ns = 60'000'000'000;
    view.wait.abort = reinterpret_cast<std::uint64_t*>(board_->data());
    view.wait.fault_count = fault_count();
    view.wait.faults = reinterpret_cast<Fault*>(board_->data() + 4096);
    views_.push_back(view);
    plan::Brief brief = program.brief ? tables_.back()->brief() : plan::Brief();
    brief.number = view.number;
    brief.wait = view.wait;
    briefs_.push_back(brief);
    threads_.push_back(program.brief ? program.threads : kThreads);
    blocks_.push_back(static_cast<int>(program.blocks.size()));
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<StreamPool> streams_;
  std::shared_ptr<Memory> board_;
  std::vector<std::shared_ptr<Memory>> memories_;
  std::vector<std::unique_ptr<PlainSegment>> segments_;
  std::vector<std::unique_ptr<plan::PlanTables>> tables_;
  std::vector<plan::PlanView> views_;
  std::vector<plan::Brief> briefs_;
  std::vector<int> threads_;
  std::vector<int> blocks_;
};

// In place: the ops hold the address.
void fill(std::vector<unsigned char>& buffer, unsigned seed) {
  const std::vector<unsigned char> values = pattern(buffer.size(), seed);
  std::copy(values.begin(), values.end(), buffer.begin());
}

Op op_of(OpKind kind, int peer, void* address, const Layout& layout, int lane) {
  Op op;
  op.kind = kind;
  op.peer = peer;
  op.tag = lane;
  op.address = address;
  op.layout = layout;
  return op;
}

// One message between two layouts of equal bytes, and where its parts lie in the two buffers.
struct Message {
  Layout from = Layout::contiguous(0);
  Layout to = Layout::contiguous(0);
};

std::vector<Message> messages() {
  std::vector<Message> all;
  for (const std::int64_t e : {1, 2, 4, 8, 16}) {
    const auto element = static_cast<std::size_t>(e);
    all.push_back({Layout::strided(element, {30, 4}, {7 * e, e}), Layout::contiguous(element * 120)});
    all.push_back({Layout::contiguous(element * 120), Layout::strided(element, {4, 30}, {e, 5 * e})});
    all.push_back({Layout::strided(element, {200}, {3 * e}), Layout::strided(element, {10, 20}, {61 * e, 2 * e})});
  }
  for (const std::size_t bytes : {0, 1, 5, 8, 13, 4099, 70001})
    all.push_back({Layout::contiguous(bytes), Layout::contiguous(bytes)});
  return all;
}

// Short ones of every element size, for plans that travel as lines alone.
std::vector<Message> short_messages() {
  std::vector<Message> all;
  for (const std::int64_t e : {1, 2, 4, 8}) {
    const auto element = static_cast<std::size_t>(e);
    all.push_back({Layout::strided(element, {20}, {3 * e}), Layout::contiguous(element * 20)});
    all.push_back({Layout::contiguous(element * 20), Layout::strided(element, {20}, {5 * e})});
  }
  for (const std::size_t bytes : {0, 1, 5, 8, 13, 64}) {
    all.push_back({Layout::contiguous(bytes), Layout::contiguous(bytes)});
  }
  return all;
}

// Every message goes from every rank to the next one, twice or also to itself, at offsets of all alignments.
enum class Second { to_next, to_self };
void lay_out(std::vector<Rank>& ranks, const std::vector<Message>& messages, Second second,
             std::vector<std::size_t>& outs, std::vector<std::size_t>& ins) {
  std::size_t out = 0;
  std::size_t in = 0;
  for (std::size_t i = 0; i < 2 * messages.size(); ++i) {
    const Message& message = messages[i / 2];
    const bool odd = message.from.is_contiguous() && message.to.is_contiguous();
    out = (out + 15) / 16 * 16 + (odd ? i % 3 * 4 : 0);
    in = (in + 15) / 16 * 16 + (odd ? i % 2 * 8 : 0);
    outs.push_back(out);
    ins.push_back(in);
    out += static_cast<std::size_t>(message.from.highest());
    in += static_cast<std::size_t>(message.to.highest());
  }
  for (Rank& rank : ranks) {
    rank.out.resize(out);
    rank.in.resize(in);
  }
  const int size = static_cast<int>(ranks.size());
  for (int r = 0; r < size; ++r) {
    Rank& rank = ranks[static_cast<std::size_t>(r)];
    for (std::size_t i = 0; i < outs.size(); ++i) {
      const bool self = i % 2 == 1 && second == Second::to_self;
      const int lane = self ? 1 : 0;
      rank.ops.push_back(
          op_of(OpKind::send, self ? r : (r + 1) % size, rank.out.data() + outs[i], messages[i / 2].from, lane));
      rank.ops.push_back(
          op_of(OpKind::recv, self ? r : (r + size - 1) % size, rank.in.data() + ins[i], messages[i / 2].to, lane));
    }
  }
}

std::vector<unsigned char> expected_in(const std::vector<Rank>& ranks, int rank, const std::vector<Message>& messages,
                                       Second second, const std::vector<std::size_t>& outs,
                                       const std::vector<std::size_t>& ins, std::vector<unsigned char> in) {
  const int size = static_cast<int>(ranks.size());
  for (std::size_t i = 0; i < outs.size(); ++i) {
    const int source = i % 2 == 1 && second == Second::to_self ? rank : (rank + size - 1) % size;
    const auto& out = ranks[static_cast<std::size_t>(source)].out;
    const Message& message = messages[i / 2];
    for (std::uint64_t b = 0; b < message.from.bytes(); ++b) {
      const std::int64_t to = Cursor(message.to.view(), b).offset();
      const std::int64_t from = Cursor(message.from.view(), b).offset();
      in[ins[i] + static_cast<std::size_t>(to)] = out[outs[i] + static_cast<std::size_t>(from)];
    }
  }
  return in;
}

// Whether brief.hpp ran the plan.
bool exchange(const std::vector<Message>& all, Second second, Path path, int size, int most_blocks) {
  std::vector<Rank> ranks(static_cast<std::size_t>(size));
  std::vector<std::size_t> outs, ins;
  lay_out(ranks, all, second, outs, ins);
  Machine grid(ranks, path, most_blocks);
  for (int launch = 0; launch < kLaunches; ++launch) {
    std::vector<std::vector<unsigned char>> expected;
    for (int r = 0; r < size; ++r) {
      Rank& rank = ranks[static_cast<std::size_t>(r)];
      fill(rank.out, static_cast<unsigned>(launch * 10 + r));
      std::fill(rank.in.begin(), rank.in.end(), static_cast<unsigned char>(0xee));
    }
    for (int r = 0; r < size; ++r) {
      expected.push_back(expected_in(ranks, r, all, second, outs, ins, ranks[static_cast<std::size_t>(r)].in));
    }
    grid.launch();
    CHECK(!grid.failed());
    for (std::size_t r = 0; r < ranks.size(); ++r) CHECK(ranks[r].in == expected[r]);
  }
  return grid.brief(0);
}

void exchange(Path path, int size, int most_blocks) {
  CHECK(!exchange(messages(), Second::to_self, path, size, most_blocks));
}

}  // namespace

CASE(one_block_moves_everything) {
  for (const Path path : {Path::automatic, Path::ll, Path::store, Path::load, Path::stage}) exchange(path, 2, 1);
}

CASE(many_blocks_share_the_ops) {
  for (const Path path : {Path::automatic, Path::ll, Path::store, Path::load, Path::stage}) exchange(path, 2, 3);
}

CASE(three_ranks_in_a_ring_credit_each_other) {
  for (const Path path : {Path::automatic, Path::ll}) exchange(path, 3, 2);
}

CASE(a_plan_of_short_messages_travels_as_lines_alone) {
  for (const int size : {2, 3}) CHECK(exchange(short_messages(), Second::to_next, Path::automatic, size, 4));
}

CASE(lines_of_several_blocks_arrive) {
  const std::vector<Message> one{{Layout::contiguous(8190), Layout::contiguous(8190)}};
  CHECK(exchange(one, Second::to_next, Path::automatic, 2, 8));
  CHECK(!exchange(one, Second::to_next, Path::automatic, 2, 2));
}

CASE(pieces_that_lie_unevenly_within_a_line_are_walked) {
  const std::vector<Message> odd{{Layout::strided(2, {5, 3}, {40, 4}), Layout::contiguous(30)}};
  CHECK(!exchange(odd, Second::to_next, Path::automatic, 2, 4));
}

CASE(a_signal_follows_the_parts_of_all_puts) {
  constexpr std::size_t kBytes = 100'000;
  std::vector<Rank> ranks(2);
  std::vector<std::vector<std::uint64_t>> counters(2, std::vector<std::uint64_t>(1, 0));
  for (std::size_t r = 0; r < 2; ++r) {
    ranks[r].out.resize(2 * kBytes);
    ranks[r].in.resize(2 * kBytes);
  }
  for (std::size_t r = 0; r < 2; ++r) {
    const int peer = static_cast<int>(1 - r);
    for (std::size_t half = 0; half < 2; ++half) {
      Op put = op_of(OpKind::put, peer, ranks[r].out.data() + half * kBytes, Layout::contiguous(kBytes), 0);
      put.remote = ranks[1 - r].in.data() + half * kBytes;
      put.remote_layout = put.layout;
      ranks[r].ops.push_back(put);
    }
    Op signal = op_of(OpKind::signal, peer, nullptr, Layout::contiguous(0), 0);
    signal.remote = counters[1 - r].data();
    signal.value = 3;
    ranks[r].ops.push_back(signal);
    Op wait = op_of(OpKind::wait, -1, counters[r].data(), Layout::contiguous(0), 0);
    wait.value = 3;
    ranks[r].ops.push_back(wait);
  }
  Machine grid(ranks, Path::automatic, 4);
  CHECK(grid.blocks(0) > 2);
  for (std::uint64_t launch = 1; launch <= 4; ++launch) {
    for (std::size_t r = 0; r < 2; ++r) fill(ranks[r].out, static_cast<unsigned>(launch * 2 + r));
    grid.launch();
    CHECK(!grid.failed());
    for (std::size_t r = 0; r < 2; ++r) {
      CHECK(ranks[r].in == ranks[1 - r].out);
      CHECK(counters[r][0] == 3 * launch);
    }
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
