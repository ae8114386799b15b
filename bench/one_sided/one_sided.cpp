// bench_one_sided: times one-sided ops - from kernels, on streams, by hosts - and a get from a busy target.
//
//   bench_one_sided [--device SPEC] [--set NAME=VALUE]... [--samples N] [--quick] [CASE...]
//
// Two ranks, or more for stream-barrier and host-barrier, under any launcher. CASE is NAME or NAME:BYTES; none: all
// that the device has (kCases). A sample is the seconds of one op one way: of a ping-pong half a round trip. The data
// of the last op of every case are checked after the timing. Rank 0 prints JSON lines: a heading, then one a case.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "one_sided_kernels.hpp"
#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/symmetric.hpp"
#include "onstream/world.hpp"
#include "support/options.hpp"
#include "world/spin_kernel.hpp"

namespace {

using namespace onstream;

struct Setup {
  std::string device;
  bench::Settings parameters;
  int samples = 10;
  int share = 1;  // each sample has one part in this many of its rounds
  std::vector<std::string> cases;
};

Setup setup_from(int argc, char** argv) {
  constexpr int kQuickShare = 20;
  Setup setup;
  bench::Options options;
  options.text("--device", setup.device)
      .setting("--set", setup.parameters)
      .count("--samples", setup.samples, 1, 10'000)
      .flag("--quick", [&] { setup.share = kQuickShare; })
      .others([&](const std::string& word) { setup.cases.push_back(word); });
  options.read(argc, argv);
  return setup;
}

// Not inlined, so that the instructions are the same for any memory.
[[gnu::noinline]] void store_words(std::uint64_t* words, int rounds) {
  for (int i = 0; i < rounds; ++i) HostGroup::store_relaxed(words + i % 4, static_cast<std::uint64_t>(i));
}
[[gnu::noinline]] std::uint64_t add_words(const std::uint64_t* words, int rounds) {
  std::uint64_t sum = 0;
  for (int i = 0; i < rounds; ++i) sum += HostGroup::load_relaxed(words + i % 4);
  return sum;
}

class Bench {
 public:
  Bench(World& world, const Setup& setup, std::size_t largest)
      : world_(world),
        setup_(setup),
        device_(world.device()),
        one_sided_(world.one_sided()),
        team_(world.team()),
        data_(world.segment(largest)),
        words_(world.segment(kWordBytes)),
        host_words_(world.segment(kWordBytes, MemoryKind::pinned)),
        source_(world.allocate(largest)),
        ticket_(world.allocate(sizeof(std::uint64_t))),
        stream_(device_.create_stream()) {
    for (const Kernel* kernel :
         {&bench::put_wait_kernel(), &bench::line_wait_kernel(), &bench::block_put_signal_kernel(),
          &bench::grid_put_signal_kernel(), &bench::spin_kernel()}) {
      device_.load(*kernel);
    }
  }
  ~Bench() { device_.destroy_stream(stream_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // --- from kernels ---
  void put_wait(std::size_t) {
    const SegmentView view = one_sided_.view(*words_);
    kernel_rounds("kernel-put-wait", 8, 2000, 32, [&](std::uint64_t first, std::uint64_t rounds, Grid grid) {
      launch(device_, bench::put_wait_kernel(), bench::PutWait{view, word(0), first, rounds}, grid, stream_);
    });
  }
  void line_wait(std::size_t) {
    const SegmentView view = one_sided_.view(*words_);
    kernel_rounds("kernel-line-wait", 8, 2000, 32, [&](std::uint64_t first, std::uint64_t rounds, Grid grid) {
      launch(device_, bench::line_wait_kernel(),
             bench::LineWait{view, reinterpret_cast<Line*>(word(8)), static_cast<std::uint32_t>(first),
                             static_cast<std::uint32_t>(rounds)},
             grid, stream_);
    });
  }
  // The view is of the data's segment: its first word is the signal, the bytes lie behind it.
  void block_put_signal(std::size_t bytes) {
    const SegmentView view = one_sided_.view(*data_);
    fill(bytes);
    auto* const signal = reinterpret_cast<std::uint64_t*>(data_->local());
    zero_signal(signal);
    kernel_rounds(
        "kernel-put-signal", bytes, 500, kMaxThreads, [&](std::uint64_t first, std::uint64_t rounds, Grid grid) {
          launch(device_, bench::block_put_signal_kernel(),
                 bench::BlockPutSignal{view, data_->local() + kHead, source_->data(), bytes, signal, first, rounds},
                 grid, stream_);
        });
    check_data("kernel-put-signal", bytes);
  }
  void grid_put(std::size_t bytes) {
    const SegmentView view = one_sided_.view(*data_);
    fill(bytes);
    auto* const signal = reinterpret_cast<std::uint64_t*>(data_->local());
    zero_signal(signal);
    const int blocks = device_.max_blocks();  // nothing else runs
    const int rounds = rounds_of(20);
    std::uint64_t sent = 0;
    sample("grid-put", "eager", bytes, rounds, [&] {
      if (world_.rank() == 0) {
        for (int i = 0; i < rounds; ++i) {
          launch(device_, bench::grid_put_signal_kernel(),
                 bench::GridPutSignal{view, data_->local() + kHead, source_->data(), bytes, signal,
                                      reinterpret_cast<std::uint64_t*>(ticket_->data())},
                 {blocks, kMaxThreads}, stream_);
        }
        device_.synchronize(stream_);
      }
      sent += static_cast<std::uint64_t>(rounds);
      if (world_.rank() == 1) {
        (void)one_sided_.wait(signal, {Compare::ge, sent, 8, Sign::unsigned_word});
      }
    });
    check_data("grid-put", bytes);
  }

  // --- on streams ---
  void stream_put_signal(std::size_t bytes) { stream_put_signal_at(kHead, "stream-put-signal", bytes); }
  // The bytes lie behind their signal, in one aligned 16.
  void stream_put_beside(std::size_t bytes) { stream_put_signal_at(8, "stream-put-beside", bytes); }
  void stream_put_signal_at(std::size_t place, const char* name, std::size_t bytes) {
    const auto window = world_.window(data_);
    place_ = place;
    fill(bytes);
    auto* const signal = reinterpret_cast<std::uint64_t*>(data_->local());
    zero_signal(signal);
    const int other = 1 - world_.rank();
    Batch tell(one_sided_);
    tell.put({*window, other, place_}, source_->data(), bytes);
    tell.signal({{*window, other, 0}, SignalOp::set, 1, 8});
    Batch listen(one_sided_);
    listen.wait(signal, {Compare::eq, 1, 8, Sign::unsigned_word});
    listen.store(signal, 0, 8);
    const int rounds = bytes >= kLarge ? 10 : 50;
    const auto play = [&] {
      for (int i = 0; i < rounds; ++i) {
        if (world_.rank() == 0) one_sided_.run(tell, stream_);
        one_sided_.run(listen, stream_);
        if (world_.rank() == 1) one_sided_.run(tell, stream_);
      }
    };
    on_stream(name, bytes, 2 * rounds, play);
    check_data(name, bytes);
    place_ = kHead;
  }
  void stream_barrier(std::size_t) {
    constexpr int kRounds = 50;
    on_stream("stream-barrier", 0, kRounds, [&] {
      for (int i = 0; i < kRounds; ++i) team_->barrier(stream_);
    });
  }

  // --- by hosts ---
  // By turns with the same stores to this rank's own part, by the same machine code, to show the cost of peer().
  void host_put(std::size_t) {
    const int rounds = rounds_of(kLoose);
    const auto store = [&](std::byte* part) { store_words(reinterpret_cast<std::uint64_t*>(part), rounds); };
    by_turns("host", 8, rounds,
             {{"host-put", [&] { store(host_words_->peer(1)); }}, {"own-put", [&] { store(host_words_->local()); }}});
  }
  void host_get(std::size_t) {
    const int rounds = rounds_of(kLoose);
    std::uint64_t sum = 0;
    const auto load = [&](std::byte* part) { sum += add_words(reinterpret_cast<std::uint64_t*>(part), rounds); };
    by_turns("host", 8, rounds,
             {{"host-get", [&] { load(host_words_->peer(1)); }}, {"own-get", [&] { load(host_words_->local()); }}});
    if (sum == 1) std::fprintf(stderr, "the words add up to one\n");  // so that the loads are made
  }
  void host_put_signal(std::size_t bytes) {
    const auto room = world_.segment(bytes + kHead, MemoryKind::pinned);
    auto* const signal = reinterpret_cast<std::uint64_t*>(room->local());
    std::vector<std::byte> source(bytes, std::byte{42});
    Context context(one_sided_);
    const int other = 1 - world_.rank();
    const int rounds = rounds_of(2000);
    std::uint64_t number = 0;
    sample("host-put-signal", "host", bytes, 2 * rounds, [&] {
      for (int i = 0; i < rounds; ++i) {
        ++number;
        if (world_.rank() == 0) {
          context.put_signal(room->local() + kHead, source.data(), bytes, signal, number, SignalOp::set, other);
        }
        if (context.wait(signal, Compare::eq, number) != Status::ok) world_.check();
        if (world_.rank() == 1) {
          context.put_signal(room->local() + kHead, source.data(), bytes, signal, number, SignalOp::set, other);
        }
      }
    });
    require(std::all_of(room->local() + kHead, room->local() + kHead + bytes,
                        [](std::byte b) { return b == std::byte{42}; }),
            "host-put-signal: wrong data");
  }
  // Rank 0 puts and makes sure that it is there (as MPI_Put and MPI_Win_flush do); rank 1 does nothing.
  void host_put_quiet(std::size_t bytes) {
    const auto room = world_.segment(bytes + kHead, MemoryKind::pinned);
    std::vector<std::byte> source(bytes, std::byte{7});
    Context context(one_sided_);
    const int rounds = rounds_of(20'000);
    sample("host-put-quiet", "host", bytes, rounds, [&] {
      if (world_.rank() != 0) return;
      for (int i = 0; i < rounds; ++i) {
        context.put(room->local() + kHead, source.data(), bytes, 1);
        context.quiet();
      }
    });
  }
  void host_barrier(std::size_t) {
    const int rounds = rounds_of(500);
    sample("host-barrier", "host", 0, rounds, [&] {
      for (int i = 0; i < rounds; ++i) team_->sync();
    });
  }

  // --- progress: rank 1's stream is in a long kernel, and its CPU in a long loop, while rank 0 gets from it ---
  void busy_get(std::size_t bytes) {
    constexpr double kBusyS = 0.2;
    fill(bytes);
    copy_own(data_->local() + kHead, source_->data(), bytes);
    Context context(one_sided_);
    std::vector<std::byte> got(bytes);
    const int rounds = rounds_of(200);
    for (const bool busy : {false, true}) {
      const char* const name = busy ? "busy-get" : "idle-get";
      bool overran = false;
      sample(name, "host", bytes, rounds, [&] {
        if (world_.rank() == 1 && busy) {
          bench::Spin spin{static_cast<std::uint64_t>(kBusyS * 1e9), word(16), word(17)};
          launch(device_, bench::spin_kernel(), spin, {1, 32}, stream_);
          const std::uint64_t end = now_ns() + static_cast<std::uint64_t>(kBusyS * 1e9);
          volatile std::uint64_t sum = 0;
          while (now_ns() < end) sum = sum + 1;
          device_.synchronize(stream_);
        }
        if (world_.rank() != 0) return;
        const std::uint64_t start = now_ns();
        for (int i = 0; i < rounds; ++i) context.get(got.data(), data_->local() + kHead, bytes, 1);
        overran = overran || (busy && static_cast<double>(now_ns() - start) * 1e-9 > kBusyS);
      });
      require(world_.rank() != 0 || std::equal(got.begin(), got.end(), expected(1, bytes).begin()), name,
              ": wrong data");
      if (overran) std::fprintf(stderr, "bench_one_sided: %s took longer than its target was busy\n", name);
    }
  }

 private:
  static constexpr std::size_t kWordBytes = 4096;
  static constexpr std::size_t kHead = 256;
  static constexpr std::size_t kLarge = std::size_t{1} << 20;
  static constexpr int kLoose = 1'000'000;  // accesses of less than a nanosecond each
  std::size_t place_ = kHead;               // of the bytes, behind the signal

  std::uint64_t* word(int i) const { return reinterpret_cast<std::uint64_t*>(words_->local()) + i; }
  int rounds_of(int whole) const { return std::max(whole / setup_.share, 2); }

  std::vector<std::byte> expected(int rank, std::size_t bytes) const {
    std::vector<std::byte> values(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      values[i] = static_cast<std::byte>((i * 7 + i / 251 + 31 * static_cast<std::size_t>(rank + 1) + bytes) & 0xff);
    }
    return values;
  }
  void copy_own(void* to, const void* from, std::size_t bytes) {
    device_.copy(to, from, bytes, stream_);
    world_.synchronize(stream_);
  }
  void fill(std::size_t bytes) {
    const std::vector<std::byte> values = expected(world_.rank(), bytes);
    copy_own(source_->data(), values.data(), bytes);
    const std::vector<std::byte> nothing(bytes);
    copy_own(data_->local() + place_, nothing.data(), bytes);
    team_->sync();
  }
  void zero_signal(std::uint64_t* signal) {
    const std::uint64_t zero = 0;
    copy_own(signal, &zero, sizeof zero);
    next_ = 1;
    team_->sync();
  }
  // Checks that rank 1 has rank 0's bytes; in a ping-pong rank 0 has rank 1's too, from the same places.
  void check_data(const char* name, std::size_t bytes) {
    if (world_.rank() != 1) return;
    std::vector<std::byte> got(bytes);
    copy_own(got.data(), data_->local() + place_, bytes);
    require(got == expected(0, bytes), name, ": wrong data");
  }

  // A ping-pong inside one kernel. Its start and end are on the clock too, in one part of `rounds`.
  template <class Launch>
  void kernel_rounds(const char* name, std::size_t bytes, int whole, int threads, const Launch& launch_it) {
    const auto rounds = static_cast<std::uint64_t>(rounds_of(whole));
    sample(name, "kernel", bytes, static_cast<int>(2 * rounds), [&] {
      launch_it(next_, rounds, Grid{1, threads});
      next_ += rounds;
      world_.synchronize(stream_);
    });
  }

  // Eager, and captured once and replayed.
  template <class Play>
  void on_stream(const char* name, std::size_t bytes, int ops, const Play& play) {
    const int replays = rounds_of(20);
    sample(name, "eager", bytes, ops * replays, [&] {
      for (int i = 0; i < replays; ++i) play();
      world_.synchronize(stream_);
    });
    device_.begin_capture(stream_);
    play();
    const std::shared_ptr<Graph> graph = device_.end_capture(stream_);
    sample(name, "captured", bytes, ops * replays, [&] {
      for (int i = 0; i < replays; ++i) device_.launch(graph, stream_);
      world_.synchronize(stream_);
    });
  }

  // --- the clock ---
  // Times work() as a whole; it is `ops` operations. One untimed sample first.
  template <class Work>
  void sample(const char* name, const char* submission, std::size_t bytes, int ops, const Work& work) {
    std::vector<double> samples_s;
    for (int s = -1; s < setup_.samples; ++s) {
      const double seconds = seconds_of(work);
      if (s >= 0) samples_s.push_back(seconds / ops);
    }
    report(name, submission, bytes, ops, samples_s);
  }
  // Several cases of rank 0 alone, one sample of each in turn, so that a change of the machine's speed meets them all.
  struct Named {
    const char* name;
    std::function<void()> work;
  };
  void by_turns(const char* submission, std::size_t bytes, int ops, const std::vector<Named>& all) {
    std::vector<std::vector<double>> samples_s(all.size());
    for (int s = -1; s < setup_.samples; ++s) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        const double seconds = seconds_of([&] {
          if (world_.rank() == 0) all[i].work();
        });
        if (s >= 0) samples_s[i].push_back(seconds / ops);
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) report(all[i].name, submission, bytes, ops, samples_s[i]);
  }
  template <class Work>
  double seconds_of(const Work& work) {
    team_->sync();
    const std::uint64_t start = now_ns();
    work();
    return static_cast<double>(now_ns() - start) * 1e-9;
  }
  void report(const char* name, const char* submission, std::size_t bytes, int ops,
              const std::vector<double>& samples_s) {
    team_->sync();
    if (world_.rank() != 0) return;
    std::cout << concat("{\"case\":\"", name, "\",\"submission\":\"", submission, "\",\"bytes\":", bytes,
                        ",\"ops\":", ops, ",\"samples_s\":", bench::seconds_list(samples_s), "}")
              << std::endl;
  }

  World& world_;
  const Setup& setup_;
  Device& device_;
  OneSided& one_sided_;
  std::shared_ptr<Team> team_;
  std::shared_ptr<Segment> data_;
  std::shared_ptr<Segment> words_;
  std::shared_ptr<Segment> host_words_;
  std::shared_ptr<Memory> source_;
  std::shared_ptr<Memory> ticket_;
  Stream stream_;
  std::uint64_t next_ = 1;  // of a word that counts
};

struct Case {
  const char* name;
  void (Bench::*run)(std::size_t);
  std::vector<std::size_t> host_bytes;
  std::vector<std::size_t> cuda_bytes;
  bool any_ranks;
  bool direct;  // of no use where peers are not reached directly
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"kernel-put-wait", &Bench::put_wait, {8}, {8}, false, true},
      {"kernel-line-wait", &Bench::line_wait, {8}, {8}, false, true},
      {"kernel-put-signal", &Bench::block_put_signal, {8, 65536}, {8, 1024, 65536}, false, true},
      {"grid-put", &Bench::grid_put, {16u << 20}, {256u << 20}, false, true},
      {"stream-put-signal", &Bench::stream_put_signal, {8, 65536, 16u << 20}, {8, 65536, 16u << 20}, false, false},
      {"stream-put-beside", &Bench::stream_put_beside, {8}, {8}, false, false},
      {"stream-barrier", &Bench::stream_barrier, {0}, {0}, true, false},
      {"host-put", &Bench::host_put, {8}, {8}, false, true},
      {"host-get", &Bench::host_get, {8}, {8}, false, true},
      {"host-put-signal", &Bench::host_put_signal, {8, 1024, 65536}, {8, 1024, 65536}, false, false},
      {"host-put-quiet", &Bench::host_put_quiet, {8, 1024, 65536}, {8, 1024, 65536}, false, false},
      {"host-barrier", &Bench::host_barrier, {0}, {0}, true, false},
      {"busy-get", &Bench::busy_get, {8192}, {8192}, false, false},
  };
  return all;
}

struct Chosen {
  const Case* what;
  std::size_t bytes;
};

Chosen chosen_from(const std::string& text, bool host) {
  const std::size_t colon = text.find(':');
  std::string known;
  for (const Case& one : cases()) {
    known += concat(known.empty() ? "" : ", ", one.name);
    if (text.substr(0, colon) != one.name) continue;
    if (colon == std::string::npos) return {&one, (host ? one.host_bytes : one.cuda_bytes).back()};
    return {&one, static_cast<std::size_t>(bench::count_from("CASE", text.substr(colon + 1), 0, 1 << 30))};
  }
  fail(ErrorCode::invalid_argument, "unknown case ", text, "; there are ", known);
}

void run(const Setup& setup) {
  const Launch launch = launch_from_environment();
  const Parameters parameters = bench::parameters_from(setup.device, setup.parameters);
  const std::shared_ptr<World> world = World::create(launch, parameters);
  const bool host = world->device().kind() == DeviceKind::host;
  std::vector<Chosen> chosen;
  for (const std::string& text : setup.cases) chosen.push_back(chosen_from(text, host));
  if (chosen.empty()) {
    for (const Case& one : cases()) {
      if (one.direct && parameters.path == "stage") continue;
      for (const std::size_t bytes : host ? one.host_bytes : one.cuda_bytes) chosen.push_back({&one, bytes});
    }
  }
  std::erase_if(chosen, [&](const Chosen& one) { return world->size() != 2 && !one.what->any_ranks; });
  require(!chosen.empty(), "no case of these works with ", world->size(), " ranks: all but the barriers want 2");
  std::size_t largest = 65536;
  for (const Chosen& one : chosen) largest = std::max(largest, one.bytes);
  if (launch.rank == 0) {
    std::cout << concat("{\"device\":", bench::quoted(world->device().name()), ",\"device_kind\":\"",
                        name_of(world->device().kind()), "\",\"ranks\":", world->size(),
                        ",\"path\":", bench::quoted(parameters.path), ",\"world\":", bench::quoted(world->describe()),
                        "}")
              << std::endl;
  }
  Bench bench(*world, setup, largest + 4096);
  for (const Chosen& one : chosen) (bench.*one.what->run)(one.bytes);
  world->barrier();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(setup_from(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_one_sided: %s\n", error.what());
    return 1;
  }
}
