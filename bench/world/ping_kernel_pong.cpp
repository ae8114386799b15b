// bench_ping_kernel_pong: a ball goes between two ranks, and each computes before it passes it on.
//
//   bench_ping_kernel_pong [OPTIONS]
//     --device SPEC  --set NAME=VALUE  --bytes N
//     --kernel-us LIST        durations of the kernel, with commas; 0 is a kernel that does nothing
//     --steps-per-batch N     steps between two points where the host may look
//     --batches-inflight N    batches enqueued before the host waits
//     --batches N             of a sample; a multiple of the batches in flight
//     --samples N
//
// A step: rank 0 waits for the ball, runs its kernel, sends; rank 1 sends, waits, runs its kernel. Ways (kWays, one
// line each) of driving the same steps:
//   synchronous  the host waits for every message and for every kernel; receives are posted ahead, a batch at a time
//   ordered      everything is enqueued on a stream; the host waits once for all the batches in flight
//   captured     the same, a batch being a graph
//   kernel       a batch is one kernel, which waits, computes and puts to the other rank's memory itself
// Except in the first, the host sleeps meanwhile and looks now and then. Each kernel passes on the count that it
// received plus one, and the sum is checked, so that an order that was not kept shows. Rank 0 prints JSON lines: a
// heading, then one each way and duration with the seconds of a step and the seconds of CPU time that the calling
// thread and the process used for a step, of rank 0.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/world.hpp"
#include "spin_kernel.hpp"
#include "support/options.hpp"

namespace {

using namespace onstream;

struct Setup {
  std::string device;
  bench::Settings parameters;
  int bytes = 1024;
  std::vector<int> kernel_us = {0, 5, 20, 100};
  int steps_per_batch = 20;
  int batches_inflight = 2;
  int batches = 20;
  int samples = 5;
};

std::vector<int> list_from(const std::string& option, const std::string& text) {
  std::vector<int> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    values.push_back(bench::count_from(option, text.substr(begin, end - begin), 0, 1'000'000));
    begin = end + 1;
  }
  return values;
}

Setup setup_from(int argc, char** argv) {
  Setup setup;
  const auto take_list = [&](const std::string& text) { setup.kernel_us = list_from("--kernel-us", text); };
  bench::Options()
      .text("--device", setup.device)
      .setting("--set", setup.parameters)
      .count("--bytes", setup.bytes, 8, 1 << 30)
      .value("--kernel-us", take_list)
      .count("--steps-per-batch", setup.steps_per_batch, 1, 10'000)
      .count("--batches-inflight", setup.batches_inflight, 1, 1'000)
      .count("--batches", setup.batches, 1, 100'000)
      .count("--samples", setup.samples, 1, 1'000)
      .read(argc, argv);
  require(setup.batches % setup.batches_inflight == 0, "--batches ", setup.batches,
          " is no multiple of --batches-inflight ", setup.batches_inflight);
  return setup;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double cpu_s(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

struct Sample {
  double step_s = 0;
  double thread_cpu_s = 0;
  double process_cpu_s = 0;
};

class Player {
 public:
  Player(World& world, const Setup& setup)
      : world_(world),
        setup_(setup),
        bytes_(static_cast<std::size_t>(setup.bytes)),
        peer_(1 - world.rank()),
        segment_(world.segment(bytes_ + kHead)),
        in_(segment_->local() + kHead),
        out_(world.allocate(bytes_)),
        stream_(world.device().create_stream()) {
    world_.device().load(bench::spin_kernel());
    world_.device().load(bench::play_kernel());
  }
  ~Player() { world_.device().destroy_stream(stream_); }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  void synchronous_batch() {
    std::vector<std::shared_ptr<Request>> receives;
    for (int s = 0; s < setup_.steps_per_batch; ++s) {
      receives.push_back(world_.irecv(in_, bytes_, peer_, MessageOptions()));
    }
    for (const auto& receive : receives) {
      if (world_.rank() == 1) check(world_.send(out_->data(), bytes_, peer_, MessageOptions()));
      check(world_.wait(receive));
      compute();
      world_.synchronize(stream_);
      if (world_.rank() == 0) check(world_.send(out_->data(), bytes_, peer_, MessageOptions()));
    }
  }

  void enqueue_batch() {
    for (int s = 0; s < setup_.steps_per_batch; ++s) {
      if (world_.rank() == 1) world_.send(out_->data(), bytes_, peer_, MessageOptions(), stream_);
      world_.recv(in_, bytes_, peer_, MessageOptions(), stream_);
      compute();
      if (world_.rank() == 0) world_.send(out_->data(), bytes_, peer_, MessageOptions(), stream_);
    }
  }

  void capture() {
    world_.device().begin_capture(stream_);
    enqueue_batch();
    graph_ = world_.device().end_capture(stream_);
  }
  void replay_batch() { world_.device().launch(graph_, stream_); }

  void play_batch() {
    const auto steps = static_cast<std::uint64_t>(setup_.steps_per_batch);
    const bench::Play play{world_.one_sided().view(*segment_),
                           spin_,
                           in_,
                           out_->data(),
                           bytes_,
                           reinterpret_cast<std::uint64_t*>(segment_->local()),
                           played_,
                           steps};
    launch(world_.device(), bench::play_kernel(), play, {1, kPlayThreads}, stream_);
    played_ += steps;
  }

  using Batch = void (Player::*)();

  // All batches of a sample, `inflight` at a time.
  Sample time(Batch batch) {
    world_.barrier();
    const double steps = static_cast<double>(setup_.batches) * setup_.steps_per_batch;
    const double thread_s = cpu_s(RUSAGE_THREAD);
    const double process_s = cpu_s(RUSAGE_SELF);
    const std::uint64_t start = now_ns();
    for (int b = 0; b < setup_.batches; ++b) {
      (this->*batch)();
      if ((b + 1) % setup_.batches_inflight == 0) finish();
    }
    const double elapsed_s = static_cast<double>(now_ns() - start) * 1e-9;
    return {elapsed_s / steps, (cpu_s(RUSAGE_THREAD) - thread_s) / steps, (cpu_s(RUSAGE_SELF) - process_s) / steps};
  }

  void begin(int kernel_us) {
    spin_ = {static_cast<std::uint64_t>(kernel_us) * 1000, word(in_), word(out_->data())};
    const std::vector<std::byte> zeros(bytes_);
    for (std::byte* const memory : {in_, out_->data()}) {
      world_.device().copy(memory, zeros.data(), zeros.size(), stream_);
      world_.synchronize(stream_);
    }
    world_.barrier();
  }

  // Every step has added one on either side, and nothing was lost or taken twice.
  void verify(std::uint64_t steps) {
    std::uint64_t count = 0;
    world_.device().copy(&count, out_->data(), sizeof(count), stream_);
    world_.synchronize(stream_);
    const std::uint64_t expected = world_.rank() == 0 ? 2 * steps - 1 : 2 * steps;
    if (count != expected) {
      fail(ErrorCode::system, "rank ", world_.rank(), ": the ball counted ", count, " kernels instead of ", expected);
    }
    world_.barrier();
  }

 private:
  static constexpr std::size_t kHead = 64;  // of the segment: the count of balls that came by kernels
  static constexpr int kPlayThreads = 128;

  static std::uint64_t* word(std::byte* address) { return reinterpret_cast<std::uint64_t*>(address); }
  // Until the stream is done; most of the time asleep.
  void finish() {
    constexpr auto kNap = std::chrono::microseconds(20);
    const std::shared_ptr<Event> end = world_.device().record(stream_);
    while (!end->done()) std::this_thread::sleep_for(kNap);
    world_.synchronize(stream_);
  }
  static void check(Status status) {
    if (status != Status::ok) fail(ErrorCode::aborted, "a message ended with status ", name_of(status));
  }
  void compute() { launch(world_.device(), bench::spin_kernel(), spin_, {1, 32}, stream_); }

  World& world_;
  const Setup& setup_;
  std::size_t bytes_;
  int peer_;
  std::shared_ptr<Segment> segment_;
  std::byte* in_;
  std::shared_ptr<Memory> out_;
  Stream stream_;
  bench::Spin spin_;
  std::uint64_t played_ = 0;
  std::shared_ptr<Graph> graph_;
};

struct Way {
  const char* name;
  Player::Batch batch;
};

constexpr std::array kWays = {
    Way{"synchronous", &Player::synchronous_batch},
    Way{"ordered", &Player::enqueue_batch},
    Way{"captured", &Player::replay_batch},
    Way{"kernel", &Player::play_batch},
};

void print(const Way& way, int kernel_us, const std::vector<Sample>& samples) {
  std::vector<double> step_s;
  std::vector<double> thread_s;
  std::vector<double> process_s;
  for (const Sample& sample : samples) {
    step_s.push_back(sample.step_s);
    thread_s.push_back(sample.thread_cpu_s);
    process_s.push_back(sample.process_cpu_s);
  }
  std::cout << concat("{\"way\":\"", way.name, "\",\"kernel_us\":", kernel_us,
                      ",\"step_s\":", bench::seconds_list(step_s), ",\"thread_cpu_s\":", bench::seconds_list(thread_s),
                      ",\"process_cpu_s\":", bench::seconds_list(process_s), "}")
            << std::endl;
}

void run(const Setup& setup, World& world) {
  require(world.size() == 2, "ping-kernel-pong needs 2 ranks, this job has ", world.size());
  Player player(world, setup);
  for (const int kernel_us : setup.kernel_us) {
    for (const Way& way : kWays) {
      player.begin(kernel_us);
      if (way.batch == &Player::replay_batch) player.capture();
      std::vector<Sample> samples;
      for (int s = 0; s <= setup.samples; ++s) samples.push_back(player.time(way.batch));
      const auto taken = static_cast<std::uint64_t>(setup.batches) * (static_cast<std::uint64_t>(setup.samples) + 1);
      player.verify(taken * static_cast<std::uint64_t>(setup.steps_per_batch));
      samples.erase(samples.begin());  // the warm-up
      if (world.rank() == 0) print(way, kernel_us, samples);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Setup setup = setup_from(argc, argv);
    const Parameters parameters = bench::parameters_from(setup.device, setup.parameters);
    require(setup.steps_per_batch <= parameters.tag_receives, "--steps-per-batch ", setup.steps_per_batch,
            " receives are posted at once, and a tag holds ", parameters.tag_receives,
            "; take fewer, or --set tag_receives=N");
    const std::shared_ptr<World> world = World::create(launch_from_environment(), parameters);
    try {
      if (world->rank() == 0) {
        std::cout << "{\"device\":" << bench::quoted(world->device().name()) << ",\"device_kind\":\""
                  << name_of(world->device().kind()) << "\",\"world\":" << bench::quoted(world->describe()) << "}"
                  << std::endl;
      }
      run(setup, *world);
    } catch (const std::exception& error) {
      world->abort(error.what());  // so that the other rank ends too
      throw;
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_ping_kernel_pong: %s\n", error.what());
    return 1;
  }
}
