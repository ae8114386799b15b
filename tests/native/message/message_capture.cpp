// Messages in graphs, on every device: replays mixed with eager calls, requests, and calls that the host may not make.
#include "onstream/message/message.hpp"

#include <array>
#include <atomic>
#include <memory>

#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

enum class Where { device, plain };

// A message's memory: the device's, or plain memory of the process.
class Place {
 public:
  Place(World& world, std::size_t bytes, Where where)
      : device_(where == Where::device ? std::make_unique<TestBuffer>(world, bytes) : nullptr),
        plain_(where == Where::plain ? bytes : 0) {}
  void* data() { return device_ ? static_cast<void*>(device_->data()) : plain_.data(); }
  void write(const std::vector<unsigned char>& values) { device_ ? device_->write(values) : void(plain_ = values); }
  std::vector<unsigned char> read() const { return device_ ? device_->read() : plain_; }

 private:
  std::unique_ptr<TestBuffer> device_;
  std::vector<unsigned char> plain_;
};

// A message to the peer and one from it.
struct Pair {
  std::size_t bytes;
  MessageOptions options;
  Where from;
  Where to;
};

enum class Form { one_after_the_other, posted };

void exchange(World& world, const Pair& pair, void* in, const void* out, Form form, Stream stream) {
  const int peer = 1 - world.rank();
  if (form == Form::posted) {
    const auto got = world.irecv(in, pair.bytes, peer, pair.options, stream);
    const auto sent = world.isend(out, pair.bytes, peer, pair.options, stream);
    world.wait(got, stream);
    world.wait(sent, stream);
    return;
  }
  if (world.rank() == 0) world.send(out, pair.bytes, peer, pair.options, stream);
  world.recv(in, pair.bytes, peer, pair.options, stream);
  if (world.rank() == 1) world.send(out, pair.bytes, peer, pair.options, stream);
}

// "" once three replays among eager ones have brought the right bytes, or why the library refuses such messages: then
// on both ranks, as both send and receive alike, and nothing is left behind, as a capture runs nothing.
std::string why_not_replayed(World& world, const Pair& pair, Form form, Stream stream) {
  Place out(world, pair.bytes, pair.from);
  Place in(world, pair.bytes, pair.to);
  world.device().begin_capture(stream);
  std::string why_not;
  try {
    exchange(world, pair, in.data(), out.data(), form, stream);
  } catch (const Error& error) {
    why_not = error.what();
  }
  const auto graph = end_capture_of_all(world, stream);  // and nobody leaves while the other still asks
  if (!why_not.empty()) return why_not;
  for (unsigned round = 0; round < 5; ++round) {
    const auto of = [&](int rank) { return pattern(pair.bytes, round * 2 + static_cast<unsigned>(rank)); };
    out.write(of(world.rank()));
    if (round % 2 == 0) {
      world.device().launch(graph, stream);
    } else {
      exchange(world, pair, in.data(), out.data(), form, stream);
    }
    world.synchronize(stream);
    if (in.read() != of(1 - world.rank())) {
      throw CheckFailed(concat(pair.bytes, " B by path ", name_of(pair.options.path), " differ in round ", round));
    }
  }
  world.barrier();  // freeing memory waits for every running kernel of the process (docs/decisions/0005)
  return "";
}

constexpr Path kPaths[] = {Path::automatic, Path::ll,    Path::store, Path::load,
                           Path::copy,      Path::stage, Path::net,   Path::memop};
constexpr std::array<Where, 2> kPlaces[] = {
    {Where::device, Where::device}, {Where::device, Where::plain}, {Where::plain, Where::device}};

}  // namespace

CASE(captured_messages_of_every_path_and_memory_replay_mixed_with_eager_ones) {
  for (const std::string& device : device_specs()) {
    const Parameters parameters = quick(device);
    const auto ring =
        static_cast<std::size_t>(device == "host" ? parameters.host_ll_max_bytes : parameters.ll_max_bytes);
    for (const Path path : kPaths) {
      const bool of_messages = path != Path::net && path != Path::memop;  // no network here; memop is of plans
      const std::string text = name_of(path);
      std::atomic<int> replayed = 0;
      run_ranks(2, parameters, [&](World& world) {
        const OwnStream stream(world);
        for (const auto& [from, to] : kPlaces) {
          for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, ring, ring + 1, std::size_t{100000}}) {
            for (const Form form : {Form::one_after_the_other, Form::posted}) {
              const std::string why = why_not_replayed(world, {bytes, {3, path}, from, to}, form, stream);
              if (why.empty()) ++replayed;
              // Between device memory no path of messages refuses any but the large ones of ll.
              const bool may_refuse = !of_messages || from == Where::plain || to == Where::plain || path == Path::ll;
              if (why.empty() || (may_refuse && why.find(concat("path ", text)) != std::string::npos)) continue;
              throw CheckFailed(concat("path ", text, " refuses ", bytes, " B: ", why));
            }
          }
        }
      });
      CHECK((replayed > 0) == of_messages);
    }
  }
}

CASE(captured_messages_replay_mixed_with_eager_ones) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    const int peer = 1 - world.rank();
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{100000}}) {
      TestBuffer buffer(world, bytes);
      const auto ping_pong = [&] {
        if (world.rank() == 0) {
          world.send(buffer.data(), bytes, peer, {}, own);
          world.recv(buffer.data(), bytes, peer, {}, own);
        } else {
          world.recv(buffer.data(), bytes, peer, {}, own);
          world.send(buffer.data(), bytes, peer, {}, own);
        }
      };
      world.device().begin_capture(own);
      for (int i = 0; i < 3; ++i) ping_pong();
      const auto graph = end_capture_of_all(world, own);
      for (unsigned round = 0; round < 20; ++round) {
        if (world.rank() == 0) buffer.write(pattern(bytes, round));
        if (round % 3 == 1) {
          ping_pong();
        } else {
          world.device().launch(graph, own);
        }
        world.synchronize(own);
        CHECK(buffer.read() == pattern(bytes, round));
      }
    }
  });
}

CASE(captured_requests_replay) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    const int peer = 1 - world.rank();
    TestBuffer out(world, 20000);
    TestBuffer in(world, 20000);
    world.device().begin_capture(own);
    const auto sent = world.isend(out.data(), 20000, peer, {}, own);
    const auto got = world.irecv(in.data(), 20000, peer, {}, own);
    world.wait(got, own);
    world.wait(sent, own);
    const auto graph = end_capture_of_all(world, own);
    for (unsigned round = 0; round < 10; ++round) {
      out.write(pattern(20000, round * 2 + static_cast<unsigned>(world.rank())));
      world.device().launch(graph, own);
      world.synchronize(own);
      CHECK(in.read() == pattern(20000, round * 2 + static_cast<unsigned>(peer)));
    }
  });
}

CASE(a_captured_wait_on_another_branch_follows_its_op) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kBytes = 100000;
    const OwnStream own(world);
    const OwnStream branch(world);
    const int peer = 1 - world.rank();
    TestBuffer out(world, kBytes);
    TestBuffer in(world, kBytes);
    TestBuffer copy(world, kBytes);
    Device& device = world.device();
    device.begin_capture(own);
    device.wait(branch, device.record(own));  // before the ops: nothing else orders the waits behind them
    const auto got = world.irecv(in.data(), kBytes, peer, {}, own);
    const auto sent = world.isend(out.data(), kBytes, peer, {}, own);
    world.wait(got, branch);
    device.copy(copy.data(), in.data(), kBytes, branch);
    world.wait(sent, branch);
    device.wait(own, device.record(branch));
    const auto graph = end_capture_of_all(world, own);
    for (unsigned round = 0; round < 20; ++round) {
      out.write(pattern(kBytes, round * 2 + static_cast<unsigned>(world.rank())));
      device.launch(graph, own);
      world.synchronize(own);
      CHECK(copy.read() == pattern(kBytes, round * 2 + static_cast<unsigned>(peer)));
    }
    CHECK_THROWS(world.wait(got, branch), "is part of a graph, and this stream is not being captured");
    world.barrier();
  });
}

CASE(a_captured_request_is_not_waited_for_by_the_host) {
  on_all_devices(1, [](World& world) {
    const OwnStream own(world);
    TestBuffer buffer(world, 64);
    world.device().begin_capture(own);
    const auto request = world.isend(buffer.data(), 64, 0, {}, own);
    const auto graph = end_capture_of_all(world, own);
    CHECK_THROWS((void)world.wait(request), "part of a graph");
    CHECK_THROWS((void)world.test(request), "part of a graph");
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
