// The device API, on every device: put, get, signals, waits, atomics and barriers from inside kernels.
#include <array>
#include <atomic>
#include <cstring>

#include "one_sided_device_kernels.hpp"
#include "onstream/one_sided.hpp"
#include "support/check.hpp"
#include "support/crowd.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// A segment of Shared, the kernel's report, and a stream of its own.
class Stage {
 public:
  explicit Stage(World& world, std::size_t bytes = sizeof(Shared))
      : world_(world),
        segment_(world.segment(bytes)),
        told_(world.allocate(sizeof(Told), MemoryKind::pinned)),
        stream_(world.device().create_stream()) {}
  ~Stage() { world_.device().destroy_stream(stream_); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  SegmentView view() const { return world_.one_sided().view(*segment_); }
  Shared* mine() const { return reinterpret_cast<Shared*>(segment_->local()); }
  std::byte* local() const { return segment_->local(); }
  Told* told() const { return reinterpret_cast<Told*>(told_->data()); }
  Stream stream() const { return stream_; }

  // All ranks' kernels are loaded before any runs: a waiting kernel keeps a GPU from loading.
  template <class Body>
  void enqueue(const Body& body, Grid grid) {
    const Kernel kernel{"one_sided_device", host_entry<Body>, one_sided_entry<Body>()};
    world_.device().load(kernel);
    world_.barrier();
    launch(world_.device(), kernel, body, grid, stream_);
  }
  template <class Body>
  void play(const Body& body, Grid grid) {
    enqueue(body, grid);
    world_.synchronize(stream_);
    CHECK(told()->wrong == 0);
    CHECK(told()->status == static_cast<std::uint64_t>(Status::ok));
    world_.barrier();
  }

 private:
  World& world_;
  std::shared_ptr<Segment> segment_;
  std::shared_ptr<Memory> told_;
  Stream stream_;
};

void put_and_wait(Who who, Grid grid) {
  for (int size = 1; size <= 5; ++size) {
    on_all_devices_over_gpus(size, [&](World& world) {
      for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{4096}}) {
        Stage stage(world);
        const TestBuffer back(world, Shared::kData);
        stage.play(PutAndWait{stage.view(), stage.mine(), back.data(), stage.told(), 10, bytes, who}, grid);
      }
    });
  }
}

// Threads of a block to which a line comes that the next one takes the place of as soon as somebody has seen it.
struct HearOne {
  struct Heard {
    std::atomic<int> looks = 0;
    std::array<std::uint64_t, 4> values = {};
    std::array<Status, 4> statuses = {};
  };
  class Scope : public CrowdGroup {
   public:
    Scope(const CrowdGroup& group, Heard* heard) : CrowdGroup(group), heard_(heard) {}
    Line load_line(const Line* line) const {
      if (heard_->looks.fetch_add(1) == 0) return *line;
      return {std::uint64_t{2} << 32, std::uint64_t{2} << 32};
    }

   private:
    Heard* heard_;
  };

  SegmentView view;
  const Line* line;
  Heard* heard;

  void operator()(const CrowdGroup& group) const {
    const auto rank = static_cast<std::size_t>(group.rank());
    heard->statuses[rank] = view.wait_line(Scope(group, heard), line, 1, &heard->values[rank]);
  }
};

}  // namespace

CASE(a_block_puts_signals_waits_and_gets_round_a_ring) { put_and_wait(Who::block, {1, 128}); }
CASE(a_warp_puts_signals_waits_and_gets_round_a_ring) { put_and_wait(Who::warp, {1, 64}); }
CASE(a_thread_puts_signals_waits_and_gets_round_a_ring) { put_and_wait(Who::thread, {1, 32}); }

CASE(atomics_of_all_threads_of_all_ranks_lose_nothing) {
  for (int size = 1; size <= 5; ++size) {
    on_all_devices_over_gpus(size, [](World& world) {
      const auto team = world.team();
      Stage stage(world);
      stage.play(Change{stage.view(), team->view(), stage.mine(), stage.told(), 20}, {1, 64});
    });
  }
}

CASE(all_any_and_some_of_a_vector_are_waited_for) {
  for (int size = 1; size <= 5; ++size) {
    on_all_devices_over_gpus(size, [](World& world) {
      const auto team = world.team();
      Stage stage(world);
      stage.play(WaitForMany{stage.view(), team->view(), stage.mine(), stage.told()}, {1, 32});
    });
  }
}

CASE(barriers_in_a_kernel_order_what_is_stored_around_them) {
  for (int size = 1; size <= 5; ++size) {
    on_all_devices_over_gpus(size, [](World& world) {
      const auto team = world.team();
      Stage stage(world);
      for (int kernels = 0; kernels < 3; ++kernels) {  // the count goes on from kernel to kernel
        stage.play(Barriers{stage.view(), team->view(), stage.mine(), stage.told(), 30}, {1, 64});
      }
    });
  }
}

CASE(lines_prove_their_own_arrival) {
  for (const int size : {1, 2, 5}) {
    on_all_devices_over_gpus(size, [](World& world) {
      Stage stage(world);
      constexpr std::uint32_t kRounds = 50;
      std::uint32_t before = 0;
      for (const Who who : {Who::thread, Who::warp, Who::block}) {
        stage.play(Lines{stage.view(), stage.mine(), stage.told(), kRounds, before, who}, {1, 96});
        before += kRounds;
      }
    });
  }
}

CASE(a_line_is_heard_by_all_threads_of_a_scope_once_one_has_seen_it) {
  std::array<std::uint64_t, 3> abort = {};
  const Line line{std::uint64_t{1} << 32 | 5, std::uint64_t{1} << 32 | 7};
  HearOne::Heard heard;
  HearOne body{};
  body.view.waits.timeout_ns = 200'000'000;
  body.view.waits.abort = abort.data();
  body.line = &line;
  body.heard = &heard;
  crowd_entry<HearOne>(&body, {1, 4});
  CHECK(heard.looks == 1);
  for (const Status status : heard.statuses) CHECK(status == Status::ok);
  for (const std::uint64_t value : heard.values) CHECK(value == (std::uint64_t{7} << 32 | 5));
}

CASE(the_whole_grid_puts_and_its_last_block_signals) {
  for (const int size : {1, 2, 3}) {
    on_all_devices_over_gpus(size, [](World& world) {
      constexpr std::size_t kBytes = 3'000'000;
      Stage stage(world, kBytes + 64);
      TestBuffer source(world, kBytes);
      const TestBuffer ticket(world, 8);
      const auto rank = static_cast<unsigned>(world.rank());
      auto* const word = reinterpret_cast<std::uint64_t*>(stage.local() + kBytes);
      for (std::uint64_t round = 1; round <= 3; ++round) {
        source.write(pattern(kBytes, rank + static_cast<unsigned>(round)));
        stage.enqueue(PutByGrid{stage.view(), stage.local(), source.data(), kBytes, word,
                                reinterpret_cast<std::uint64_t*>(ticket.data())},
                      {8, 256});
        CHECK(world.one_sided().wait(word, {Compare::ge, round, 8, Sign::unsigned_word}) == Status::ok);
        const auto before = static_cast<unsigned>((world.rank() + world.size() - 1) % world.size());
        std::vector<unsigned char> got(kBytes);
        world.one_sided().copy(got.data(), stage.local(), kBytes);
        CHECK(got == pattern(kBytes, before + static_cast<unsigned>(round)));
        world.synchronize(stage.stream());
        world.barrier();
      }
    });
  }
}

CASE(columns_are_put_and_got_with_strides) {
  for (const int size : {1, 2, 4}) {
    on_all_devices_over_gpus(size, [](World& world) {
      const auto team = world.team();
      constexpr std::size_t kSide = Columns::kSide;
      Stage stage(world, kSide * kSide * sizeof(double));
      TestBuffer column(world, 2 * kSide * sizeof(double));
      std::vector<double> values(2 * kSide);
      for (std::size_t i = 0; i < kSide; ++i) values[i] = 100.0 * world.rank() + static_cast<double>(i);
      world.one_sided().copy(column.data(), values.data(), values.size() * sizeof(double));
      stage.play(Columns{stage.view(), reinterpret_cast<double*>(stage.local()),
                         reinterpret_cast<double*>(column.data()), team->view(), stage.told()},
                 {1, 32});
    });
  }
}

CASE(a_wait_in_vain_returns_timeout_and_fails_the_world) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1.5;
    run_ranks(1, parameters, [](World& world) {
      Stage stage(world);
      stage.enqueue(WaitInVain{stage.view(), stage.mine(), stage.told()}, {1, 64});
      CHECK_THROWS(world.synchronize(stage.stream()), "wait for a word of 8 B to be 77 (at ");
      CHECK_THROWS(world.check(), ") passed its deadline");
      CHECK(stage.told()->status == static_cast<std::uint64_t>(Status::timeout));
    });
  }
}

CASE(an_aborted_world_ends_a_wait_in_a_kernel) {
  on_all_devices_over_gpus(2, [](World& world) {
    Stage stage(world);
    stage.enqueue(WaitInVain{stage.view(), stage.mine(), stage.told()}, {1, 64});
    if (world.rank() == 0) world.abort("the test says so");
    CHECK_THROWS(world.synchronize(stage.stream()), "the test says so");
    CHECK(stage.told()->status == static_cast<std::uint64_t>(Status::aborted));
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
