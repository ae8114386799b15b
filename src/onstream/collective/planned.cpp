// Collectives of plans: a plan's build compares them between ranks and prepares them, and its launches enqueue them.
#include "onstream/collective/call/portions.hpp"
#include "onstream/collective/implementation.hpp"
#include "onstream/plan/op/planned_call.hpp"

namespace onstream {

using collective::Channel;

namespace {

// The path of the data, as the plan's row reports it.
Path path_of(Algorithm algorithm) {
  if (collective::is_by_lines(algorithm)) return Path::ll;
  switch (algorithm) {
    case Algorithm::simple: return Path::store;
    case Algorithm::copy: return Path::copy;
    default: return Path::stage;
  }
}

}  // namespace

class Collective::PlannedCollective final : public plan::PlannedCall {
 public:
  PlannedCollective(std::shared_ptr<Implementation> home, CollectiveCall call)
      : home_(std::move(home)), call_(std::move(call)) {
    home_->check(call_);
    home_->channels_.check_number(call_.channel);
    (void)algorithm();
  }

  const Fabric* fabric() const override { return home_->fabric().get(); }

  // States the call with the algorithm that this rank takes.
  plan::StatedCall state() const override {
    CollectiveCall asked = call_;
    asked.algorithm = algorithm();
    plan::StatedCall stated;
    stated.words = concat(collective::words_of(asked), ", channel ", call_.channel);
    if (home_->channels_.is_team()) stated.team = home_->number_of_team();
    stated.ranks.assign(home_->ranks().begin(), home_->ranks().end());
    if (call_.kind != OpKind::all_to_all_v) return stated;
    for (int peer = 0; peer < home_->size(); ++peer) {
      const collective::Portion portion = collective::portion_of(call_, home_->rank(), peer);
      const int world_rank = home_->ranks()[static_cast<std::size_t>(peer)];
      stated.gives.push_back({world_rank, portion.send_bytes});
      stated.takes.push_back({world_rank, portion.receive_bytes});
    }
    return stated;
  }

  std::vector<const void*> buffers() const override {
    std::vector<const void*> all;
    if (call_.input_bytes(home_->rank(), home_->size()) > 0) all.push_back(call_.input);
    if (call_.output_bytes(home_->rank(), home_->size()) > 0) all.push_back(call_.output);
    return all;
  }

  void open() const override {
    if (home_->spans_hosts()) return;
    Channel& channel = home_->channels_.of(call_);
    const Algorithm taken = algorithm();
    if (taken != Algorithm::copy && taken != Algorithm::hierarchical) return;
    const std::lock_guard lock(channel.order.mutex);
    (void)home_->channels_.copies_of(channel, call_);
  }

  plan::PreparedCall prepare() const override {
    if (home_->spans_hosts()) {
      auto [order, work] = home_->network_work(call_);
      PlanOp row = row_of(work);
      return home_->runner_.for_plan(home_, *order, std::move(work), std::move(row));
    }
    Channel& channel = home_->channels_.of(call_);
    collective::CompiledCall work = home_->compile_next(channel, call_);
    channel.budget().keep(work.blocks());
    PlanOp row = row_of(work);
    return home_->runner_.for_plan(home_, channel.order, std::move(work), std::move(row));
  }

 private:
  CollectiveCall move() const { return call_.combine ? collective::UserReduction::move_of(call_) : call_; }
  Algorithm algorithm() const { return home_->selected(call_).algorithm; }

  PlanOp row_of(const collective::CompiledCall& work) const {
    PlanOp row;
    row.op.kind = call_.kind;
    const std::size_t counted = call_.count * (call_.combine ? call_.element_bytes : size_of(call_.type));
    const bool is_v = call_.kind == OpKind::all_to_all_v;
    row.op.layout = Layout::contiguous(is_v ? call_.input_bytes(home_->rank(), home_->size()) : counted);
    if (home_->channels_.is_team()) row.op.note = "of ranks" + listed(home_->ranks());
    row.path = home_->spans_hosts() ? Path::net : path_of(algorithm());
    const bool asked = home_->as_asked(move()).algorithm != Algorithm::automatic;
    row.why = work.empty() ? "there is nothing to do"
              : home_->spans_hosts()
                  ? "ranks of several hosts"
                  : concat(name_of(algorithm()), asked ? ", as asked for" : ", the least predicted cost",
                           call_.combine ? "; then a reduction of your own" : "");
    return row;
  }

  std::shared_ptr<Implementation> home_;
  CollectiveCall call_;
};

std::shared_ptr<const plan::PlannedCall> Collective::planned(const CollectiveCall& call) const {
  return std::make_shared<const PlannedCollective>(implementation_, call);
}

}  // namespace onstream
