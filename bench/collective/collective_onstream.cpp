// onstream's own collectives under measurement.
#include <vector>

#include "collective_library.hpp"
#include "onstream/base/text.hpp"
#include "onstream/world.hpp"
#include "support/options.hpp"

#ifndef ONSTREAM_BENCH_VERSION
#define ONSTREAM_BENCH_VERSION "unknown"
#define ONSTREAM_BENCH_BUILD "unknown"
#endif

namespace onstream::bench {

namespace {

class OnstreamCollectives final : public CollectiveLibrary {
 public:
  OnstreamCollectives(const CollectiveSetup& setup, const Parameters& parameters)
      : world_(World::create(setup.launch, parameters)), memory_(setup.memory) {
    for (std::byte** each : {&input_, &output_}) {
      if (memory_ == MemoryKind::host) {
        plain_.emplace_back(setup.largest + 1);
        *each = plain_.back().data();
      } else {
        owned_.push_back(world_->allocate(setup.largest + 1, memory_));
        *each = owned_.back()->data();
      }
    }
  }

  int rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }
  Device& device() const override { return world_->device(); }
  std::byte* input() const override { return input_; }
  std::byte* output() const override { return output_; }

  void enqueue(const CollectiveCase& c, Stream stream) override { world_->collective().run(call(c), stream); }
  void run_host(const CollectiveCase& c) override { world_->collective().run(call(c)); }
  void barrier(Stream) override { world_->collective().run(collective::barrier()); }
  void synchronize(Stream stream) override { world_->synchronize(stream); }
  std::string explain(const CollectiveCase& c) override {
    const std::string story = world_->collective().explain(call(c));
    return story.substr(0, story.find('\n'));
  }
  void abort(const std::string& reason) override { world_->abort(reason); }

  std::string heading() const override {
    return concat("{\"library\":\"onstream " ONSTREAM_BENCH_VERSION "\",\"build_type\":\"" ONSTREAM_BENCH_BUILD
                  "\",\"device\":",
                  quoted(device().name()), ",\"device_kind\":\"", name_of(device().kind()), "\",\"memory\":\"",
                  name_of(memory_), "\",\"ranks\":", size(), ",\"world\":", quoted(world_->describe()), "}");
  }

 private:
  CollectiveCall call(const CollectiveCase& c) const {
    CollectiveCall call;
    call.kind = c.kind;
    call.input = input_;
    call.output = output_;
    call.count = c.kind == OpKind::barrier ? 0 : c.count(size());
    call.type = c.type;
    call.op = c.op;
    return call;
  }

  std::shared_ptr<World> world_;
  MemoryKind memory_;
  std::vector<std::shared_ptr<Memory>> owned_;
  std::vector<std::vector<std::byte>> plain_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
};

}  // namespace

std::unique_ptr<CollectiveLibrary> open_onstream_collectives(const CollectiveSetup& setup,
                                                             const Parameters& parameters) {
  return std::make_unique<OnstreamCollectives>(setup, parameters);
}

}  // namespace onstream::bench
