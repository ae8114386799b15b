#include "onstream/collective/compile/compile.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>

#include "onstream/base/error.hpp"
#include "onstream/collective/kernel/barrier.hpp"
#include "onstream/collective/kernel/kernels.hpp"
#include "onstream/collective/kernel/ll.hpp"
#include "onstream/collective/kernel/ll128.hpp"
#include "onstream/collective/kernel/simple_move.hpp"
#include "onstream/collective/kernel/simple_reduce.hpp"
#include "onstream/collective/kernel/two_shot.hpp"
#include "onstream/collective/kernel/user_kernels.hpp"
#include "onstream/collective/select/algorithm.hpp"
#include "onstream/collective/select/cost.hpp"
#include "onstream/collective/sleeping/pass_move.hpp"
#include "onstream/collective/sleeping/pass_reduce.hpp"
#include "onstream/transport/copy_thread.hpp"

namespace onstream::collective {

namespace {

class CallCompiler {
 public:
  CallCompiler(Fabric& fabric, const Channel& channel, const std::vector<int>& ranks, const CollectiveCall& call,
               int most)
      : fabric_(fabric),
        channel_(channel),
        ranks_(ranks),
        call_(call),
        most_(static_cast<std::size_t>(most)),
        rank_(channel.view().rank),
        size_(channel.view().size),
        bytes_(call.count * size_of(call.type)),
        input_(static_cast<const std::byte*>(call.input)),
        output_(static_cast<std::byte*>(call.output)),
        on_host_(fabric.device()->kind() == DeviceKind::host) {}

  KernelLaunch lines() {
    if (call_.kind == OpKind::barrier) return barrier();
    if (!has_op(call_.kind)) return exchange_ll();
    if (call_.user_kernels != nullptr) {
      return with_functor(call_.user_kernels->lines, reduce_ll<BytesRule>(),
                          line_grid(bytes_, call_.user_kernels->line_data));
    }
    KernelLaunch out;
    with_rule([&]<class Rule>() {
      const auto body = reduce_ll<Rule>();
      out.set(reduce_ll_kernel(call_.type), body, line_grid(bytes_, ReduceLl<Rule>::kUnit));
    });
    return out;
  }

  KernelLaunch two_shot() {
    const std::size_t part = (bytes_ + size_ - 1) / size_;
    if (call_.user_kernels != nullptr) {
      return with_functor(call_.user_kernels->two_shot, two_shot_ll<BytesRule>(),
                          line_grid(part, call_.user_kernels->line_data));
    }
    KernelLaunch out;
    with_rule([&]<class Rule>() {
      const auto body = two_shot_ll<Rule>();
      constexpr int kUnit = TwoShotLl<Rule>::kUnit;
      out.set(two_shot_kernel(call_.type), body, line_grid(part, kUnit));
    });
    return out;
  }

  KernelLaunch ll128() {
    KernelLaunch out;
    if (!has_op(call_.kind)) {
      ExchangeLl128 body;
      fill_ll128(body);
      body.out_stride = call_.kind == OpKind::broadcast ? 0 : bytes_;
      const bool there = input_ + body.in_stride * rank_ == output_ + body.out_stride * rank_;
      body.keeps = there ? 0 : 1;
      out.set(exchange_ll128_kernel(), body, ll128_grid(body.stripes));
      return out;
    }
    with_rule([&]<class Rule>() {
      ReduceLl128<Rule> body;
      fill_ll128(body);
      body.op = call_.op;
      body.factor = factor();
      out.set(reduce_ll128_kernel(call_.type), body, ll128_grid(body.stripes));
    });
    return out;
  }

  KernelLaunch direct() {
    const bool near = size_ <= kNear;
    if (!has_op(call_.kind)) return near ? bulk_move<kNear>() : bulk_move<kMostRanks>();
    // A GPU among many ranks takes the stage: it has no kernel with so many addresses.
    return near || !on_host_ ? bulk_reduce<kNear>(near) : bulk_reduce<kMostRanks>(true);
  }

  KernelLaunch pass(PassShape shape) {
    KernelLaunch out;
    if (!has_op(call_.kind)) {
      PassMove body;
      fill_pass(body, shape);
      out.set(pass_move_kernel(), body, bulk_grid(bulk_blocks(bytes_)));
      return out;
    }
    with_rule([&]<class Rule>() {
      PassReduce<Rule> body;
      fill_pass(body, shape);
      body.op = call_.op;
      body.factor = factor();
      out.set(pass_reduce_kernel(call_.type), body, bulk_grid(bulk_blocks(bytes_)));
    });
    return out;
  }

 private:
  // Calls function.operator()<Rule>() for the call's type.
  template <class Function>
  void with_rule(const Function& function) const {
    with_rule_from<0>(function);
  }
  template <int kType, class Function>
  void with_rule_from(const Function& function) const {
    if constexpr (kType < kElementTypes) {
      if (static_cast<int>(call_.type) == kType) {
        function.template operator()<typename RuleOf<static_cast<ElementType>(kType)>::Rule>();
      } else {
        with_rule_from<kType + 1>(function);
      }
    }
  }

  Factor factor() const {
    switch (call_.type) {
      case ElementType::int8:
      case ElementType::uint8:
      case ElementType::int16:
      case ElementType::uint16:
      case ElementType::int32:
      case ElementType::uint32:
      case ElementType::int64:
      case ElementType::uint64: return static_cast<Factor>(call_.int_factor);
      default: return std::bit_cast<Factor>(call_.factor);
    }
  }

  // Ranks whose data this rank's result is of.
  std::uint64_t adds() const {
    switch (call_.kind) {
      case OpKind::scan: return below(rank_ + 1);
      case OpKind::exclusive_scan: return below(rank_);
      default: return below(size_);
    }
  }

  std::uint32_t root() const { return static_cast<std::uint32_t>(call_.root); }
  bool is_root() const { return rank_ == root(); }

  Flow flow() const {
    switch (call_.kind) {
      case OpKind::reduce:
      case OpKind::gather: return Flow::to_root;
      case OpKind::broadcast:
      case OpKind::scatter: return Flow::from_root;
      case OpKind::scan:
      case OpKind::exclusive_scan: return Flow::upward;
      default: return Flow::all;
    }
  }

  static std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

  MachineTraits machine() const { return machine_of(fabric_, static_cast<int>(rank_), size_); }

  // Sets the members that every body has.
  template <class Body>
  void start(Body& body, Algorithm algorithm, int blocks = 0) const {
    body.view = channel_.view();
    body.input = input_;
    body.output = output_;
    body.bytes = bytes_;
    body.root = root();
    body.kind = call_.kind;
    body.named = call_.name();
    body.signature = signature_of(call_, algorithm, blocks);
  }

  template <class Body>
  void fill(Body& body, Algorithm algorithm) const {
    start(body, algorithm);
    body.flow = flow();
    const bool own_part =
        call_.kind == OpKind::reduce_scatter || call_.kind == OpKind::scatter || call_.kind == OpKind::all_to_all;
    body.in_stride = own_part ? bytes_ : 0;
    body.access_width = access_width_of(number(input_) | number(output_) | body.in_stride);
    if (call_.user_kernels != nullptr)
      body.access_width =
          access_width_of(body.access_width | static_cast<std::uint64_t>(call_.user_kernels->line_data));
  }

  void fill_ll128(Ll128Work& body) const {
    fill(body, Algorithm::ll128);
    const bool in_parts = ll128_in_two_shots(call_, machine());
    body.stripes = std::max<std::uint64_t>(1, in_parts ? stripes_of_part(bytes_, size_) : stripes_for(bytes_));
    body.part = in_parts ? body.stripes * kStripeData : bytes_;
    if (in_parts) body.in_stride = body.part;
    body.whole = call_.kind == OpKind::reduce_scatter ? size_ * bytes_ : bytes_;
    if (call_.kind == OpKind::all_gather || call_.kind == OpKind::all_to_all) {
      body.access_width =
          access_width_of(body.access_width | bytes_);  // the data of one rank lies behind that of another
    }
  }

  template <class Rule>
  ReduceLl<Rule> reduce_ll() const {
    ReduceLl<Rule> body;
    fill(body, Algorithm::ll);
    body.op = call_.op;
    body.factor = factor();
    body.adds = call_.kind == OpKind::reduce && !is_root() ? 0 : adds();
    return body;
  }
  template <class Rule>
  TwoShotLl<Rule> two_shot_ll() const {
    TwoShotLl<Rule> body;
    fill(body, Algorithm::two_shot);
    body.op = call_.op;
    body.factor = factor();
    return body;
  }

  template <class Like>
  KernelLaunch with_functor(const UserKernel<Like>& kernel, const Like& like, Grid grid) const {
    KernelLaunch out;
    out.kernel = &kernel.kernel;
    out.bytes.resize(kernel.bytes);
    out.grid = grid;
    out.see_view(like);  // the functor's body begins as this one
    kernel.make(like, call_.user_state.empty() ? nullptr : call_.user_state.data(), out.bytes.data());
    return out;
  }

  KernelLaunch barrier() const {
    BarrierLl body;
    fill(body, Algorithm::ll);
    KernelLaunch out;
    out.set(barrier_kernel(), body, grid_for(static_cast<std::size_t>(size_ - 1)));
    return out;
  }

  KernelLaunch exchange_ll() const {
    ExchangeLl body;
    fill(body, Algorithm::ll);
    const bool beside =
        call_.kind == OpKind::gather || call_.kind == OpKind::all_gather || call_.kind == OpKind::all_to_all;
    body.out_stride = beside ? bytes_ : 0;
    body.access_width = access_width_of(body.access_width | body.out_stride);
    const bool mine = body.flow == Flow::all || is_root();  // this rank's own data is part of its result
    const bool there = input_ + body.in_stride * rank_ == output_ + body.out_stride * rank_;
    body.keeps = mine && !there ? 1 : 0;
    KernelLaunch out;
    out.set(exchange_ll_kernel(), body, line_grid(bytes_, ExchangeLl::kUnit));
    return out;
  }

  // Blocks of few threads, as long as there may be more of them: every instruction is issued for every warp. There is
  // one warp more than have units: it stores the next epoch, and its last thread asks whether another collective runs
  // (Session::watches); nobody else shall wait for that.
  Grid line_grid(std::size_t bytes, int unit) const {
    return grid_for((bytes + static_cast<std::size_t>(unit) - 1) / static_cast<std::size_t>(unit));
  }
  Grid ll128_grid(std::uint64_t stripes) const { return grid_for(stripes * kSubgroup); }
  Grid grid_for(std::size_t units) const {
    if (on_host_) return {1, 1};
    const auto threads = static_cast<std::size_t>(fabric_.parameters().collective_ll_threads);
    units = std::max<std::size_t>(1, units);
    const std::size_t blocks = std::min(most_, (units + threads - 1) / threads);
    constexpr std::size_t kWarp = 32;
    const std::size_t each = ((units + blocks - 1) / blocks + kWarp - 1) / kWarp * kWarp + kWarp;
    return {static_cast<int>(blocks), static_cast<int>(std::min<std::size_t>(each, kMaxThreads))};
  }

  // The blocks for so many bytes that one rank moves or adds. Each block meets that of its number on the other ranks,
  // so that all have as many: part of the signature.
  int bulk_blocks(std::size_t bytes) const {
    const auto each = static_cast<std::size_t>(fabric_.parameters().collective_block_bytes);
    return static_cast<int>(std::clamp<std::size_t>((bytes + each - 1) / each, 1, most_));
  }
  Grid bulk_grid(int blocks) const { return on_host_ ? Grid{1, 1} : Grid{blocks, kMaxThreads}; }

  // Where a peer finds this rank's memory; 0 where it is not needed. False: it cannot.
  bool export_to_peer(const void* address, std::size_t bytes, std::uint32_t peer, std::uint64_t& out) {
    out = 0;
    if (bytes == 0 || address == nullptr) return true;
    const auto there = fabric_.export_to_peer(address, bytes, ranks_[peer]);
    if (there) out = *there;
    return there.has_value();
  }

  ReduceShare share() const {
    switch (call_.kind) {
      case OpKind::reduce: return ReduceShare::to_root;
      case OpKind::reduce_scatter: return ReduceShare::own;
      case OpKind::scan:
      case OpKind::exclusive_scan: return ReduceShare::upward;
      default: return ReduceShare::to_all;
    }
  }

  template <int kMost>
  KernelLaunch bulk_reduce(bool addresses_fit) {
    const bool one_part = share() == ReduceShare::to_all || share() == ReduceShare::to_root;
    const std::size_t work = one_part ? bytes_ / size_ : bytes_;
    if (call_.user_kernels != nullptr) {
      const int blocks = own_bulk_blocks(work);
      const auto like = bulk_body<BytesRule, kMost>(addresses_fit, blocks);
      if constexpr (kMost == kNear)
        return with_functor(call_.user_kernels->bulk, like, bulk_grid(blocks));
      else
        return with_functor(call_.user_kernels->bulk_far, like, bulk_grid(blocks));
    }
    const int blocks = bulk_blocks(work);
    KernelLaunch out;
    with_rule([&]<class Rule>() {
      const AddressTable table = kMost == kNear ? AddressTable::near : AddressTable::far;
      auto body = bulk_body<Rule, kMost>(addresses_fit, blocks);
      if (body.direct != 0) {
        CopyThread::CopierLease lease = engine_for_sums();
        body.copier = lease.copier();
        out.kept = lease.share();
      }
      out.set(bulk_reduce_kernel(call_.type, table), body, bulk_grid(blocks));
    });
    return out;
  }

  template <class Rule, int kMost>
  BulkReduce<Rule, kMost> bulk_body(bool addresses_fit, int blocks) {
    BulkReduce<Rule, kMost> body;
    start(body, Algorithm::simple, blocks);
    body.share = share();
    body.op = call_.op;
    body.adds = adds();
    body.factor = factor();
    // Between two ranks it takes longer (docs/decisions/0010).
    body.halves = call_.kind == OpKind::all_reduce && size_ > 2 && bytes_ >= halves_bytes() ? 1 : 0;
    // A scan in place overwrites data that higher ranks still read.
    const bool clobbers = body.share == ReduceShare::upward && call_.input == call_.output;
    body.direct = addresses_fit && !clobbers && export_for_reduce(body.share, body.at) ? 1 : 0;
    set_part(body, call_.user_kernels == nullptr ? BulkReduce<Rule, kMost>::kDeal : call_.user_kernels->deal);
    return body;
  }

  std::size_t halves_bytes() const { return static_cast<std::size_t>(fabric_.parameters().collective_halves_bytes); }

  void set_part(BulkReduceWork& body, std::uint64_t deal) const {
    body.part_bytes = bytes_;
    if (body.share == ReduceShare::to_all || body.share == ReduceShare::to_root) {
      body.in_offset = body.out_offset = part_begin(bytes_, deal, rank_, size_);
      body.part_bytes = part_begin(bytes_, deal, rank_ + 1, size_) - body.in_offset;
    } else if (body.share == ReduceShare::own) {
      body.in_offset = bytes_ * rank_;
    }
  }

  // Each block's region of the stage holds two pieces of every rank.
  int own_bulk_blocks(std::size_t work) const {
    const std::size_t parts = call_.kind == OpKind::reduce_scatter ? size_ : 1;
    const std::size_t region = (2 * parts * call_.user_kernels->deal + 255) / 256 * 256;
    const std::size_t most = std::max<std::size_t>(1, channel_.view().stage_bytes / region);
    return static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(bulk_blocks(work)), most));
  }

  bool export_for_reduce(ReduceShare share, Whereabouts* at) {
    const std::size_t in = call_.input_bytes(static_cast<int>(rank_), static_cast<int>(size_));
    const bool written = share == ReduceShare::to_all || (share == ReduceShare::to_root && is_root());
    bool all = true;
    for (std::uint32_t peer = 0; peer < size_ && all; ++peer) {
      if (peer == rank_) continue;
      all = export_to_peer(input_, in, peer, at[peer].input) &&
            (!written || export_to_peer(output_, bytes_, peer, at[peer].output));
    }
    return all;
  }

  static Algorithm algorithm_with(PassShape shape) {
    switch (shape) {
      case PassShape::ring: return Algorithm::ring;
      case PassShape::tree: return Algorithm::tree;
      default: return Algorithm::halving_doubling;
    }
  }

  void fill_pass(PassWork& body, PassShape shape) {
    start(body, algorithm_with(shape), bulk_blocks(bytes_));
    if (!has_root(call_.kind)) body.root = 0;
    body.shape = shape;
    bool all = true;
    for (int i = 0; i < PassWork::kMostNear && all; ++i) {
      const std::uint32_t peer = body.neighbour(i);
      if (peer < size_) all = export_all(peer, body.near[i]);
    }
    body.direct = all ? 1 : 0;
  }

  bool export_all(std::uint32_t peer, Whereabouts& out) {
    if (peer == rank_) return true;
    const auto rank = static_cast<int>(rank_);
    const auto size = static_cast<int>(size_);
    return export_to_peer(input_, call_.input_bytes(rank, size), peer, out.input) &&
           export_to_peer(output_, call_.output_bytes(rank, size), peer, out.output);
  }

  Portion portion(std::uint32_t peer) const {
    return portion_of(call_, static_cast<int>(rank_), static_cast<int>(peer));
  }

  template <int kMost>
  KernelLaunch bulk_move() {
    BulkMove<kMost> body;
    std::size_t work = 0;
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
      body.portions[peer] = portion(peer);
      work += body.portions[peer].send_bytes;
    }
    // The grid is the same on every rank, though not all ranks know how much the others move.
    if (call_.kind == OpKind::broadcast || call_.kind == OpKind::gather || call_.kind == OpKind::scatter) work = bytes_;
    constexpr std::size_t kEnough = std::size_t{1} << 60;
    if (is_v(call_.kind)) work = kEnough;
    const int blocks = bulk_blocks(work);
    start(body, Algorithm::simple, blocks);
    if (call_.kind == OpKind::broadcast && size_ > 2) {  // with somebody to forward to
      const auto least = static_cast<std::uint64_t>(fabric_.parameters().collective_chain_bytes);
      body.chain = goes_from_rank_to_rank(bytes_, size_, least) ? 1 : 0;
      body.each = step_of_broadcast(body.chain != 0, static_cast<std::size_t>(blocks));
    }
    body.direct = !overwrites_itself(call_) && export_for_move(body.portions, body.outputs) ? 1 : 0;
    KernelLaunch out;
    if (body.direct != 0 && body.each == 0) {
      CopyThread::CopierLease lease = engine_for_move(body.portions);
      body.copier = lease.copier();
      out.kept = lease.share();
    }
    out.set(bulk_move_kernel(kMost == kNear ? AddressTable::near : AddressTable::far), body, bulk_grid(blocks));
    return out;
  }

  // The bytes that a block sends at once in a broadcast in which ranks forward. Announcing a step takes a trip: small
  // segments go in few steps, and where every rank waits for the one before steps are long.
  std::size_t step_of_broadcast(bool chain, std::size_t blocks) const {
    constexpr std::size_t kStep = 16 << 10;
    constexpr std::size_t kChainStep = 256 << 10;
    constexpr std::size_t kHostStep = 1 << 20;
    const std::size_t segment = bytes_ / (size_ - 1) / blocks;
    if (on_host_) return std::max(kHostStep, segment / 16);
    if (chain) return kChainStep;
    return segment < 4 * kStep ? 2 * kStep : kStep;
  }

  bool asks_engine() const { return collective::asks_engine(call_, machine()); }

  // A slot of none if it is not asked. The kernel sends the first peer's lead.
  CopyThread::CopierLease engine_for_move(const Portion* portions) const {
    constexpr std::uint64_t kAligned = 128;
    if (!asks_engine()) return {};
    std::uint64_t first = 0;
    for (std::uint32_t k = 1; k < size_ && first == 0; ++k) first = portions[(rank_ + k) % size_].send_bytes;
    const auto most = static_cast<std::uint64_t>(fabric_.parameters().copy_lead_bytes);
    return fabric_.copies().take(std::min(most, first / 4) / kAligned * kAligned);
  }

  // A slot for sums, or none. All ranks find the same, if they can address all buffers.
  CopyThread::CopierLease engine_for_sums() const {
    if (!asks_engine()) return {};
    return fabric_.copies().take(0);
  }

  bool export_for_move(const Portion* portions, std::uint64_t* outputs) {
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const bool from_all = call_.kind == OpKind::broadcast && !is_root();  // ranks forward to each other
      const std::size_t bytes = from_all ? bytes_ : portions[peer].receive_bytes;
      const std::byte* const address = bytes > 0 ? output_ + portions[peer].receive_offset : nullptr;
      if (!export_to_peer(address, bytes, peer, outputs[peer])) return false;
    }
    return true;
  }

  Fabric& fabric_;
  const Channel& channel_;
  const std::vector<int>& ranks_;
  const CollectiveCall& call_;
  std::size_t most_;  // blocks
  std::uint32_t rank_;
  std::uint32_t size_;
  std::size_t bytes_;
  const std::byte* input_;
  std::byte* output_;
  bool on_host_;
};

}  // namespace

KernelLaunch prepare(Fabric& fabric, const Channel& channel, const std::vector<int>& ranks, const CollectiveCall& call,
                     int most) {
  CallCompiler preparing(fabric, channel, ranks, call, most);
  switch (call.algorithm) {
    case Algorithm::ll: return preparing.lines();
    case Algorithm::two_shot: return preparing.two_shot();
    case Algorithm::ll128: return preparing.ll128();
    case Algorithm::ring: return preparing.pass(PassShape::ring);
    case Algorithm::tree: return preparing.pass(PassShape::tree);
    case Algorithm::halving_doubling: return preparing.pass(PassShape::halving);
    default: return preparing.direct();
  }
}

}  // namespace onstream::collective
