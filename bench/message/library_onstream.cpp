// onstream itself under measurement: channels are tags, batches are plans. Path memop is of plans alone: there each
// message of the data channel is a launch of a plan with that message in it.
#include <algorithm>
#include <map>
#include <tuple>

#include "library.hpp"
#include "onstream/base/error.hpp"
#include "onstream/layout.hpp"
#include "onstream/plan.hpp"
#include "onstream/world.hpp"
#include "support/options.hpp"

#ifndef ONSTREAM_BENCH_VERSION
#define ONSTREAM_BENCH_VERSION "unknown"
#define ONSTREAM_BENCH_BUILD "unknown"
#define ONSTREAM_BENCH_COMPILER "unknown"
#define ONSTREAM_BENCH_CUDA ""
#endif

namespace onstream::bench {

namespace {

void check(Status status, const char* what) {
  if (status != Status::ok) fail(ErrorCode::aborted, what, " ended with status ", name_of(status));
}

// A buffer of any kind of memory; kind host is the process's own, as malloc gives it.
class Buffer {
 public:
  Buffer(World& world, std::size_t bytes, MemoryKind kind) {
    if (kind == MemoryKind::host) {
      plain_.resize(bytes);
      data_ = plain_.data();
    } else {
      memory_ = world.allocate(bytes, kind);
      data_ = memory_->data();
    }
  }
  std::byte* data() const { return data_; }

 private:
  std::shared_ptr<Memory> memory_;
  std::vector<std::byte> plain_;
  std::byte* data_ = nullptr;
};

class PlanBatch final : public Batch {
 public:
  explicit PlanBatch(std::shared_ptr<Plan> plan) : plan_(std::move(plan)) {}
  void post(Stream stream) override { plan_->launch(stream); }

 private:
  std::shared_ptr<Plan> plan_;
};

class OnstreamLibrary final : public Library {
 public:
  OnstreamLibrary(const LibraryOptions& options, const Parameters& parameters)
      : options_(options),
        parameters_(parameters),
        world_(World::create(options.launch, parameters)),
        peer_(1 - world_->rank()),
        data_out_(*world_, std::max(options.largest, kWordBytes), options.from),
        data_in_(*world_, std::max(options.largest, kWordBytes), options.to),
        word_out_(*world_, kWordBytes, options.from),
        word_in_(*world_, kWordBytes, options.to) {}

  int rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }
  Device& device() const override { return world_->device(); }
  std::byte* outgoing(Channel channel) const override {
    return (channel == Channel::data ? data_out_ : word_out_).data();
  }
  std::byte* incoming(Channel channel) const override {
    return (channel == Channel::data ? data_in_ : word_in_).data();
  }

  void send(const Span& span, int peer, Stream stream) override {
    if (by_plan(span)) return message_plan(span, rank(), peer).launch(stream);
    world_->send(outgoing(span.channel) + span.offset, span.bytes, peer, message(span.channel), stream);
  }
  void recv(const Span& span, int peer, Stream stream) override {
    if (by_plan(span)) return message_plan(span, peer, rank()).launch(stream);
    world_->recv(incoming(span.channel) + span.offset, span.bytes, peer, message(span.channel), stream);
  }
  void exchange(const Span& span, int to, int from, Stream stream, Stream second) override {
    send(span, to, stream);
    recv(span, from, second);
  }
  void ring_step(const Span& span, int to, int from, Stream stream) override {
    if (by_plan(span)) return ring_plan(span, to, from).launch(stream);
    const MessageOptions options = message(span.channel);
    world_->sendrecv({outgoing(span.channel) + span.offset, span.bytes, to, options},
                     {incoming(span.channel) + span.offset, span.bytes, from, options}, stream);
  }
  std::shared_ptr<Batch> prepare(const std::vector<Step>& steps) override {
    return std::make_shared<PlanBatch>(build(steps));
  }

  void run_host(const Case& c) override {
    if (options_.path == Path::memop) fail(ErrorCode::unsupported, "path memop is ordered on a stream; no host waits");
    switch (c.mode) {
      case Mode::ping_pong: return host_ping_pong(c);
      case Mode::pipelined: return host_pipelined(c);
      case Mode::bidirectional: return host_bidirectional(c);
      default: fail(ErrorCode::unsupported, "mode ", name_of(c.mode), " has no submission host");
    }
  }

  void synchronize(Stream stream) override { world_->synchronize(stream); }
  void begin_case() override { plans_.clear(); }
  void abort(const std::string& reason) override { world_->abort(reason); }

  std::string heading() const override {
    std::string rows;
    for (const ParameterRow& row : parameters_.rows()) {
      rows += concat(rows.empty() ? "" : ",", "{\"name\":", quoted(row.name), ",\"value\":", quoted(row.value),
                     ",\"set_by\":", quoted(row.set_by), "}");
    }
    return concat(
        "{\"library\":\"onstream " ONSTREAM_BENCH_VERSION "\",\"build_type\":\"" ONSTREAM_BENCH_BUILD
        "\",\"compiler\":\"" ONSTREAM_BENCH_COMPILER "\",\"cuda_compiler\":\"" ONSTREAM_BENCH_CUDA "\",\"device\":",
        quoted(device().name()), ",\"device_kind\":\"", name_of(device().kind()), "\",\"from\":\"",
        name_of(options_.from), "\",\"to\":\"", name_of(options_.to), "\",\"path\":\"", name_of(options_.path),
        "\",\"ranks\":", size(), ",\"world\":", quoted(world_->describe()), ",\"parameters\":[", rows, "]}");
  }

 private:
  bool by_plan(const Span& span) const { return options_.path == Path::memop && span.channel == Channel::data; }

  // The plan of one message between two ranks. Both build those of both directions when they first use the span, which
  // every mode does at the same point, and before it captures.
  Plan& message_plan(const Span& span, int from, int to) {
    const auto plan = [&](int source) -> std::shared_ptr<Plan>& { return plans_[{span.offset, span.bytes, source}]; };
    if (plan(from) == nullptr) {
      for (const int source : {0, 1}) {
        plan(source) = build({{rank() == source ? Step::Kind::send : Step::Kind::recv, span, 1 - rank()}});
      }
    }
    require(from != to, "a message to oneself is no part of this bench");
    return *plan(from);
  }
  Plan& ring_plan(const Span& span, int to, int from) {
    std::shared_ptr<Plan>& plan = plans_[{span.offset, span.bytes, -1}];
    if (plan == nullptr) plan = build({{Step::Kind::send, span, to}, {Step::Kind::recv, span, from}});
    return *plan;
  }

  std::shared_ptr<Plan> build(const std::vector<Step>& steps) {
    PlanBuilder builder = world_->plan("bench");
    if (options_.path != Path::automatic) builder.use_path(options_.path);
    for (const Step& step : steps) {
      const Layout layout = Layout::contiguous(step.span.bytes);
      if (step.kind == Step::Kind::send) {
        builder.send(outgoing(step.span.channel) + step.span.offset, layout, step.peer);
      } else {
        builder.recv(incoming(step.span.channel) + step.span.offset, layout, step.peer);
      }
    }
    return builder.build();
  }

  MessageOptions message(Channel channel) const {
    if (channel == Channel::control) return {.tag = 1, .path = Path::automatic};
    return {.tag = 0, .path = options_.path};
  }

  void host_ping_pong(const Case& c) {
    const MessageOptions options = message(Channel::data);
    const void* out = data_out_.data();
    void* in = data_in_.data();
    const long rounds = static_cast<long>(c.iterations) * c.window;
    for (long i = 0; i < rounds; ++i) {
      if (rank() == 0) check(world_->send(out, c.bytes, peer_, options), "send");
      check(world_->recv(in, c.bytes, peer_, options), "recv");
      if (rank() == 1) check(world_->send(out, c.bytes, peer_, options), "send");
    }
  }

  void host_pipelined(const Case& c) {
    const MessageOptions options = message(Channel::data);
    const MessageOptions control = message(Channel::control);
    for (int i = 0; i < c.iterations; ++i) {
      requests_.clear();
      for (int w = 0; w < c.window; ++w) {
        requests_.push_back(rank() == 0 ? world_->isend(data_out_.data(), c.bytes, peer_, options)
                                        : world_->irecv(data_in_.data(), c.bytes, peer_, options));
      }
      for (const auto& request : requests_) check(world_->wait(request), "wait");
      if (rank() == 0) {
        check(world_->recv(word_in_.data(), kWordBytes, peer_, control), "acknowledgement, recv");
      } else {
        check(world_->send(word_out_.data(), kWordBytes, peer_, control), "acknowledgement, send");
      }
    }
  }

  void host_bidirectional(const Case& c) {
    const MessageOptions options = message(Channel::data);
    for (int i = 0; i < c.iterations; ++i) {
      requests_.clear();
      for (int w = 0; w < c.window; ++w) requests_.push_back(world_->irecv(data_in_.data(), c.bytes, peer_, options));
      for (int w = 0; w < c.window; ++w) requests_.push_back(world_->isend(data_out_.data(), c.bytes, peer_, options));
      for (const auto& request : requests_) check(world_->wait(request), "wait");
    }
  }

  LibraryOptions options_;
  Parameters parameters_;
  std::shared_ptr<World> world_;
  int peer_;
  Buffer data_out_;
  Buffer data_in_;
  Buffer word_out_;
  Buffer word_in_;
  std::vector<std::shared_ptr<Request>> requests_;
  std::map<std::tuple<std::size_t, std::size_t, int>, std::shared_ptr<Plan>>
      plans_;  // by span and source; of path memop
};

}  // namespace

std::unique_ptr<Library> open_onstream(const LibraryOptions& options, const Parameters& parameters) {
  return std::make_unique<OnstreamLibrary>(options, parameters);
}

}  // namespace onstream::bench
