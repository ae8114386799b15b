// Collectives of plans: what a plan's build compares between ranks and prepares, and what its launches enqueue.
#include "onstream/collective/implementation.hpp"
#include "onstream/collective/portions.hpp"
#include "onstream/plan/planned_call.hpp"

namespace onstream {

using collective::Channel;
using collective::Launching;

// What a plan launches. Prepared once: its kernels find their turn in the channel's memory.
class Collective::Prepared final : public plan::PreparedCall {
 public:
  Prepared(std::shared_ptr<Implementation> home, const CollectiveCall& call)
      : home_(std::move(home)), channel_(home_->channel_of(call.channel)), call_(call) {
    if (call.combine && call.count > 0) {
      own_ = std::make_shared<const collective::OwnReduction>(home_->fabric_, call, home_->rank(), home_->size());
      add(own_->move());
      const Launching last = own_->reduction(channel_.view());
      if (last.kernel != nullptr) kernels_.push_back(last);
    } else {
      add(call);
    }
  }

  void enqueue(Stream stream) override {
    const std::lock_guard lock(channel_.order.mutex);
    if (copies_) {
      home_->runner_.enqueue(channel_.order, stream,
                             [&] { channel_.copies->enqueue(*home_->device_, *copies_, stream); });
    }
    for (const Launching& work : kernels_) home_->runner_.enqueue(channel_.order, stream, work);
    if (own_) home_->keep(own_, channel_.order, stream);
  }

  int kernels() const override { return static_cast<int>(kernels_.size()); }
  Op op() const override {
    Op op;
    op.kind = call_.kind;
    const std::size_t counted = call_.count * (own_ ? call_.element_bytes : size_of(call_.type));
    const bool is_v = call_.kind == OpKind::all_to_all_v;
    op.layout = Layout::contiguous(is_v ? call_.input_bytes(home_->rank(), home_->size()) : counted);
    if (home_->is_team_) {
      op.note = "of ranks";
      for (const int rank : home_->ranks()) op.note += concat(" ", rank);
    }
    return op;
  }
  Path path() const override {
    switch (algorithm_) {
      case Algorithm::lines:
      case Algorithm::two_shot: return Path::ll;
      case Algorithm::direct: return Path::store;
      case Algorithm::copy: return Path::copy;
      default: return Path::stage;
    }
  }
  std::string why() const override {
    if (kernels_.empty() && !copies_) return "there is nothing to do";
    return concat(name_of(algorithm_), asked_ ? ", as asked for" : ", the least predicted cost",
                  own_ ? "; then a reduction of your own" : "");
  }

 private:
  void add(const CollectiveCall& call) {
    const CollectiveCall asked = home_->with_choice(call);
    algorithm_ = asked.algorithm;
    asked_ = home_->with_algorithm(call).algorithm != Algorithm::automatic;
    if (Implementation::has_nothing_to_do(call)) return;
    if (algorithm_ == Algorithm::copy) {
      const std::lock_guard lock(channel_.order.mutex);
      copies_ = home_->copies_of(channel_, call.channel).prepare(*home_->fabric_, asked);
    } else if (algorithm_ == Algorithm::hierarchical) {
      const std::lock_guard lock(channel_.order.mutex);
      kernels_ = home_->stages(channel_, asked);
    } else {
      kernels_.push_back(home_->prepare(channel_, asked));
    }
  }

  std::shared_ptr<Implementation> home_;
  Channel& channel_;
  CollectiveCall call_;
  Algorithm algorithm_ = Algorithm::automatic;
  bool asked_ = false;  // by the call or a parameter
  std::vector<Launching> kernels_;
  std::optional<collective::Copies::Work> copies_;
  std::shared_ptr<const collective::OwnReduction> own_;
};

class Collective::Planned final : public plan::PlannedCall {
 public:
  Planned(std::shared_ptr<Implementation> home, CollectiveCall call) : home_(std::move(home)), call_(std::move(call)) {
    if (call_.combine) collective::OwnReduction::check(call_, home_->device_->kind());
    home_->check(call_.combine ? collective::OwnReduction::in_bytes(call_) : call_);
    home_->check_channel(call_.channel);
    (void)algorithm();
  }

  const Fabric* fabric() const override { return home_->fabric().get(); }

  // With the algorithm that this rank takes.
  plan::StatedCall state() const override {
    CollectiveCall asked = call_;
    asked.algorithm = algorithm();
    plan::StatedCall stated;
    stated.words = concat(collective::words_of(asked), ", channel ", call_.channel);
    if (home_->is_team_) stated.team = home_->channels_.front()->number();
    stated.ranks.assign(home_->ranks().begin(), home_->ranks().end());
    if (call_.kind != OpKind::all_to_all_v) return stated;
    for (int peer = 0; peer < home_->size(); ++peer) {
      const collective::Portion portion = collective::portion_of(call_, home_->rank(), peer);
      stated.gives.push_back(portion.send_bytes);
      stated.takes.push_back(portion.receive_bytes);
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
    Channel& channel = home_->channel_of(call_.channel);
    const Algorithm taken = algorithm();
    if (taken != Algorithm::copy && taken != Algorithm::hierarchical) return;
    const std::lock_guard lock(channel.order.mutex);
    (void)home_->copies_of(channel, call_.channel);
  }

  std::unique_ptr<plan::PreparedCall> prepare() const override { return std::make_unique<Prepared>(home_, call_); }

 private:
  // Of a reduction by a function: its move's.
  Algorithm algorithm() const {
    return home_->with_choice(call_.combine ? collective::OwnReduction::move_of(call_) : call_).algorithm;
  }

  std::shared_ptr<Implementation> home_;
  CollectiveCall call_;
};

std::shared_ptr<const plan::PlannedCall> Collective::planned(const CollectiveCall& call) const {
  return std::make_shared<const Planned>(implementation_, call);
}

}  // namespace onstream
