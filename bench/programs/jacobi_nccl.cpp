// program_jacobi_nccl: Jacobi's method on a square grid, rows parted among the ranks, in NCCL's calls.
//
//   program_jacobi_nccl ID_FILE STEPS COLUMNS...
//
// Every step exchanges a row with the rank before and with the one behind (the grid goes round in this direction) in
// one group, sums the change over all ranks and reads it back, as a program does that stops when the change is small.
// Three ways: `eager` on one stream; `overlapped`, the inner rows on one stream beside the outer rows and the exchange
// on another; `graphs`, the overlapped step captured. `alone` is the step without messages and without reading back,
// 32 steps at once: the kernels' own time. Rank 0 prints a JSON line for each way and grid: step_us, the median of 9
// runs of STEPS steps, and the change after the same number of steps.
#include <cmath>
#include <functional>

#include "jacobi_cells.hpp"
#include "nccl_ranks.hpp"

namespace {

using namespace programs;

constexpr int kRuns = 9;

class Jacobi {
 public:
  Jacobi(const Ranks& ranks, int columns) : ranks_(ranks), columns_(columns), rows_(columns / ranks.size) {
    const std::size_t bytes = cells() * sizeof(float);
    for (float*& grid : grids_) OK(cudaMalloc(&grid, bytes));
    OK(cudaMalloc(&change_, sizeof(float)));
    OK(cudaMallocHost(&seen_, sizeof(float)));
    for (cudaStream_t* stream : {&inner_, &outer_}) OK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    for (cudaEvent_t* event : {&reset_, &sent_}) OK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  Jacobi(const Jacobi&) = delete;
  Jacobi& operator=(const Jacobi&) = delete;
  ~Jacobi() {
    for (const cudaGraphExec_t step : steps_) {
      if (step != nullptr) cudaGraphExecDestroy(step);
    }
    for (const cudaEvent_t event : {reset_, sent_}) cudaEventDestroy(event);
    for (const cudaStream_t stream : {inner_, outer_}) cudaStreamDestroy(stream);
    cudaFreeHost(seen_);
    cudaFree(change_);
    for (float* const grid : grids_) cudaFree(grid);
  }

  // The first column is 1 and all others are 0, but a wave that differs on all ranks makes the halo matter.
  void start() {
    std::vector<float> cells(this->cells());
    for (int row = 0; row < rows_ + 2; ++row) {
      const int whole = (ranks_.rank * rows_ + row - 1 + columns_) % columns_;
      for (int column = 0; column < columns_; ++column) {
        const float wave = std::sin(6.2831853F * static_cast<float>(whole) / static_cast<float>(columns_));
        cells[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column)] =
            column == 0 ? 1.0F + wave : 0.0F;
      }
    }
    for (float* const grid : grids_) {
      OK(cudaMemcpyAsync(grid, cells.data(), cells.size() * sizeof(float), cudaMemcpyHostToDevice, inner_));
    }
    ranks_.meet(inner_, change_);
    now_ = 0;
  }

  void eager_step() {
    OK(cudaMemsetAsync(change_, 0, sizeof(float), inner_));
    relax(part(1, rows_), inner_);
    exchange(inner_);
    finish();
  }
  void overlapped_step() {
    enqueue_overlapped();
    wait();
  }
  void captured_step() {
    cudaGraphExec_t& step = steps_[now_];
    if (step == nullptr) {
      cudaGraph_t graph = nullptr;
      OK(cudaStreamBeginCapture(inner_, cudaStreamCaptureModeThreadLocal));
      enqueue_overlapped();
      OK(cudaStreamEndCapture(inner_, &graph));
      OK(cudaGraphInstantiate(&step, graph, 0));
      OK(cudaGraphDestroy(graph));
    }
    OK(cudaGraphLaunch(step, inner_));
    wait();
  }
  // 32 steps of the kernels alone.
  void lone_steps() {
    for (int i = 0; i < 32; ++i) {
      OK(cudaMemsetAsync(change_, 0, sizeof(float), inner_));
      relax(part(1, rows_), inner_);
      now_ = 1 - now_;
    }
    OK(cudaStreamSynchronize(inner_));
  }

  float change() const { return std::sqrt(*seen_); }

 private:
  std::size_t cells() const { return static_cast<std::size_t>(rows_ + 2) * static_cast<std::size_t>(columns_); }
  float* row(float* grid, int number) const {
    return grid + static_cast<std::size_t>(number) * static_cast<std::size_t>(columns_);
  }
  Relax part(int first, int last) const { return {grids_[1 - now_], grids_[now_], change_, columns_, first, last}; }

  void exchange(cudaStream_t stream) {
    float* const grid = grids_[1 - now_];
    const auto count = static_cast<std::size_t>(columns_);
    OK(ncclGroupStart());
    OK(ncclRecv(row(grid, 0), count, ncclFloat, ranks_.before(), ranks_.comm, stream));
    OK(ncclRecv(row(grid, rows_ + 1), count, ncclFloat, ranks_.after(), ranks_.comm, stream));
    OK(ncclSend(row(grid, rows_), count, ncclFloat, ranks_.after(), ranks_.comm, stream));
    OK(ncclSend(row(grid, 1), count, ncclFloat, ranks_.before(), ranks_.comm, stream));
    OK(ncclGroupEnd());
  }
  void sum_up() {
    OK(ncclAllReduce(change_, change_, 1, ncclFloat, ncclSum, ranks_.comm, inner_));
    OK(cudaMemcpyAsync(seen_, change_, sizeof(float), cudaMemcpyDeviceToHost, inner_));
  }
  void wait() {
    OK(cudaStreamSynchronize(inner_));
    now_ = 1 - now_;
  }
  void finish() {
    sum_up();
    wait();
  }
  void enqueue_overlapped() {
    OK(cudaMemsetAsync(change_, 0, sizeof(float), inner_));
    OK(cudaEventRecord(reset_, inner_));
    OK(cudaStreamWaitEvent(outer_, reset_, 0));
    relax(part(1, 1), outer_);
    relax(part(rows_, rows_), outer_);
    relax(part(2, rows_ - 1), inner_);
    exchange(outer_);
    OK(cudaEventRecord(sent_, outer_));
    OK(cudaStreamWaitEvent(inner_, sent_, 0));
    sum_up();
  }

  const Ranks& ranks_;
  int columns_;
  int rows_;
  int now_ = 0;  // which grid has this step
  float* grids_[2] = {};
  float* change_ = nullptr;
  float* seen_ = nullptr;  // by the host
  cudaStream_t inner_ = nullptr;
  cudaStream_t outer_ = nullptr;
  cudaEvent_t reset_ = nullptr;
  cudaEvent_t sent_ = nullptr;
  cudaGraphExec_t steps_[2] = {};  // from either grid
};

double step_us(const std::function<void()>& step, int steps) {
  std::vector<double> runs;
  for (int run = -1; run < kRuns; ++run) {
    const double begin = now_us();
    for (int i = 0; i < steps; ++i) step();
    if (run >= 0) runs.push_back((now_us() - begin) / steps);
  }
  return median_of(runs);
}

void measure(const Ranks& ranks, int columns, int steps) {
  Jacobi jacobi(ranks, columns);
  const auto way = [&](const char* name, double share, const std::function<void()>& step) {
    jacobi.start();
    const double us = step_us(step, steps) * share;
    if (ranks.rank != 0) return;
    std::printf(
        "{\"program\": \"jacobi_nccl\", \"case\": \"%s\", \"columns\": %d, \"step_us\": %.2f, \"change\": %.6g}\n",
        name, columns, us, static_cast<double>(jacobi.change()));
    std::fflush(stdout);
  };
  way("eager", 1, [&] { jacobi.eager_step(); });
  way("overlapped", 1, [&] { jacobi.overlapped_step(); });
  way("graphs", 1, [&] { jacobi.captured_step(); });
  way("alone", 1.0 / 32, [&] { jacobi.lone_steps(); });
}

void run(const std::vector<std::string>& words) {
  if (words.size() < 3) throw std::runtime_error("usage: program_jacobi_nccl ID_FILE STEPS COLUMNS...");
  const Ranks ranks(words[0]);
  const int steps = std::stoi(words[1]);
  for (std::size_t i = 2; i < words.size(); ++i) measure(ranks, std::stoi(words[i]), steps);
}

}  // namespace

int main(int argc, char** argv) { return main_of("program_jacobi_nccl", argc, argv, run); }
