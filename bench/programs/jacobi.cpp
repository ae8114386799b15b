// program_jacobi: the Jacobi method of program_jacobi_nccl in onstream's calls.
//
//   program_jacobi STEPS COLUMNS...
//
// A step relaxes this rank's rows, exchanges a row with the rank before and with the one behind, and sums the change
// over all ranks; 32 steps are one graph, the changes of all of them are kept. Ways: `calls`, a halo and an all_reduce
// launched after each other; `plan`, both as one plan; `eager`, the calls without a graph. `alone` is the kernels' own
// time in a graph. Rank 0 prints a JSON line for each way and grid: step_us, the median of 9 runs of STEPS graphs, and
// the change after the same number of steps.
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <onstream/onstream.hpp>
#include <string>
#include <vector>

#include "jacobi_cells.hpp"
#include "measuring.hpp"

namespace {

using namespace programs;

constexpr int kRuns = 9;
constexpr int kSteps = 32;  // of a graph

class Jacobi {
 public:
  Jacobi(onstream::World& world, int columns)
      : world_(world), device_(world.device()), columns_(columns), rows_(columns / world.size()) {
    const std::size_t bytes = cells() * sizeof(float);
    onstream::HaloSpec rows;
    rows.shape = {rows_ + 2, columns_};
    rows.element_bytes = sizeof(float);
    rows.ghost = {1, 0};
    rows.grid = {world.size(), 1};
    rows.periodic = {true, false};
    changes_ = world.allocate(kSteps * sizeof(float), onstream::MemoryKind::device);
    for (int i = 0; i < 2; ++i) {
      memory_[i] = world.allocate(bytes, onstream::MemoryKind::device);
      halos_[i] = world.halo(grid(i), rows);
    }
    for (int step = 0; step < kSteps; ++step) {
      onstream::PlanBuilder builder = world.plan("step");
      onstream::add_halo(builder, *world.fabric(), grid(1 - step % 2), rows);
      builder.add(world.collective().planned(sum_of(step)));
      plans_.push_back(builder.build());
    }
    ok(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    stream_ = {own_};
  }
  Jacobi(const Jacobi&) = delete;
  Jacobi& operator=(const Jacobi&) = delete;
  ~Jacobi() { cudaStreamDestroy(own_); }

  // As program_jacobi_nccl starts.
  void start() {
    std::vector<float> cells(this->cells());
    for (int row = 0; row < rows_ + 2; ++row) {
      const int whole = (world_.rank() * rows_ + row - 1 + columns_) % columns_;
      const float wave = std::sin(6.2831853F * static_cast<float>(whole) / static_cast<float>(columns_));
      cells[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_)] = 1.0F + wave;
    }
    for (int i = 0; i < 2; ++i) device_.copy(grid(i), cells.data(), cells.size() * sizeof(float), stream_);
    device_.synchronize(stream_);
    world_.barrier();
  }

  // 32 steps on the stream, each followed by `exchange(step)`.
  void enqueue(const std::function<void(int)>& exchange) {
    ok(cudaMemsetAsync(changes(), 0, kSteps * sizeof(float), own_), "cudaMemsetAsync");
    for (int step = 0; step < kSteps; ++step) {
      relax({grid(1 - step % 2), grid(step % 2), changes() + step, columns_, 1, rows_}, own_);
      exchange(step);
    }
  }
  void by_calls(int step) {
    halos_[1 - step % 2]->launch(stream_);
    world_.collective().run(sum_of(step), stream_);
  }
  void by_plan(int step) { plans_[static_cast<std::size_t>(step)]->launch(stream_); }

  std::shared_ptr<onstream::Graph> capture(const std::function<void(int)>& exchange) {
    device_.begin_capture(stream_);
    enqueue(exchange);
    return device_.end_capture(stream_);
  }
  void launch(const std::shared_ptr<onstream::Graph>& graph) { device_.launch(graph, stream_); }
  void synchronize() { world_.synchronize(stream_); }

  float change() {
    float last = 0;
    device_.copy(&last, changes() + kSteps - 1, sizeof(last), stream_);
    device_.synchronize(stream_);
    return std::sqrt(last);
  }

 private:
  std::size_t cells() const { return static_cast<std::size_t>(rows_ + 2) * static_cast<std::size_t>(columns_); }
  float* grid(int i) const { return reinterpret_cast<float*>(memory_[i]->data()); }
  float* changes() const { return reinterpret_cast<float*>(changes_->data()); }
  onstream::CollectiveCall sum_of(int step) const {
    return onstream::collective::all_reduce({changes() + step, changes() + step, 1, onstream::ElementType::float32});
  }

  onstream::World& world_;
  onstream::Device& device_;
  int columns_;
  int rows_;
  std::shared_ptr<onstream::Memory> memory_[2];
  std::shared_ptr<onstream::Memory> changes_;
  std::shared_ptr<onstream::Plan> halos_[2];            // of either grid
  std::vector<std::shared_ptr<onstream::Plan>> plans_;  // of each step: its halo and its sum
  cudaStream_t own_ = nullptr;
  onstream::Stream stream_;  // the same
};

double step_us(int graphs, const std::function<void()>& launch, const std::function<void()>& synchronize) {
  std::vector<double> runs;
  for (int run = -1; run < kRuns; ++run) {
    const double begin = now_us();
    for (int i = 0; i < graphs; ++i) launch();
    synchronize();
    if (run >= 0) runs.push_back((now_us() - begin) / (graphs * kSteps));
  }
  return median_of(runs);
}

void measure(onstream::World& world, int columns, int graphs) {
  Jacobi jacobi(world, columns);
  const auto way = [&](const char* name, const std::function<void()>& launch) {
    jacobi.start();
    const double us = step_us(graphs, launch, [&] { jacobi.synchronize(); });
    const auto change = static_cast<double>(jacobi.change());
    if (world.rank() != 0) return;
    std::printf("{\"program\": \"jacobi\", \"case\": \"%s\", \"columns\": %d, \"step_us\": %.2f, \"change\": %.6g}\n",
                name, columns, us, change);
    std::fflush(stdout);
  };
  const auto captured = [&](const char* name, const std::function<void(int)>& exchange) {
    jacobi.start();
    jacobi.enqueue(exchange);
    jacobi.synchronize();
    const std::shared_ptr<onstream::Graph> graph = jacobi.capture(exchange);
    way(name, [&] { jacobi.launch(graph); });
  };
  captured("calls", [&](int step) { jacobi.by_calls(step); });
  captured("plan", [&](int step) { jacobi.by_plan(step); });
  captured("alone", [](int) {});
  way("eager", [&] { jacobi.enqueue([&](int step) { jacobi.by_calls(step); }); });
}

void run(const std::vector<std::string>& words) {
  if (words.size() < 2) throw std::runtime_error("usage: program_jacobi STEPS COLUMNS...");
  const auto world = onstream::World::create();
  for (std::size_t i = 1; i < words.size(); ++i) measure(*world, std::stoi(words[i]), std::stoi(words[0]));
}

}  // namespace

int main(int argc, char** argv) { return main_of("program_jacobi", argc, argv, run); }
