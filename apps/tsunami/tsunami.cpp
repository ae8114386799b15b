#include "tsunami.hpp"

#include <algorithm>
#include <cmath>

#include "launchers.hpp"
#include "onstream/base/error.hpp"
#include "onstream/halo.hpp"

namespace onstream::tsunami {

namespace {

enum ClockWord : std::int64_t { kClock, kComputeTotal, kWaitTotal, kSamples, kClockWords };

constexpr int kThreads = 256;  // of a block on cuda

void check_problem(const Problem& problem, const Block& block) {
  const auto size_is = [](const char* name, std::size_t size, std::int64_t expected) {
    require(static_cast<std::int64_t>(size) == expected, "tsunami: ", name, " has ", size,
            " elements, but this rank's part needs ", expected);
  };
  size_is("width_m", problem.width_m.size(), problem.rows);
  size_is("face_width_m", problem.face_width_m.size(), problem.rows + 1);
  size_is("depth_m", problem.depth_m.size(), (block.rows() + 2) * (block.columns() + 2));
  size_is("elevation_m", problem.elevation_m.size(), block.rows() * block.columns());
  require(problem.height_m > 0 && problem.time_step_s > 0 && problem.gravity > 0,
          "tsunami: height_m=", problem.height_m, ", time_step_s=", problem.time_step_s,
          " and gravity=", problem.gravity, " must all be positive");
  require(problem.steps >= 0, "tsunami: steps=", problem.steps, " must not be negative");
  const auto finite = [](double value) { return std::isfinite(value); };
  require(std::all_of(problem.depth_m.begin(), problem.depth_m.end(), finite),
          "tsunami: depth_m holds values that are not finite");
  require(std::all_of(problem.elevation_m.begin(), problem.elevation_m.end(), finite),
          "tsunami: elevation_m holds values that are not finite");
  for (const std::int64_t gauge : problem.gauges) {
    require(gauge >= 0 && gauge < problem.rows * problem.columns, "tsunami: gauge cell ", gauge, " is not in a sea of ",
            problem.rows, " x ", problem.columns, " cells");
  }
}

// Depth of the water at a face, 0 where it is closed.
double face_depth(double here, double there) { return here > 0 && there > 0 ? 0.5 * (here + there) : 0.0; }

}  // namespace

Tsunami::Tsunami(std::shared_ptr<World> world, const Problem& problem)
    : world_(std::move(world)),
      device_(world_->device()),
      grid_(rank_grid(world_->size(), problem.rows, problem.columns)),
      block_(block_of(world_->rank(), grid_, problem.rows, problem.columns)),
      rows_(problem.rows),
      columns_(problem.columns) {
  check_problem(problem, block_);
  compute_ = device_.create_stream();
  exchange_ = device_.create_stream();
  set_up_sea(problem);
  set_up_gauges(problem);
  if (world_->size() > 1) {
    HaloSpec spec;
    spec.shape = {sea_.rows + 2, sea_.pitch()};
    spec.element_bytes = sizeof(double);
    spec.ghost = {1, 1};
    spec.grid = grid_;
    halo_ = world_->halo(sea_.eta, spec, "sea surface");
  }
  if (problem.replay == Replay::captured) {
    for (const bool keeps : {false, true}) captured_[keeps] = capture(keeps ? highest_ : nullptr);
  }
  world_->barrier();  // no step begins while another rank still loads graphs, which waits for running kernels
}

Tsunami::~Tsunami() {
  try {
    device_.synchronize(compute_);
    device_.synchronize(exchange_);
  } catch (const Error&) {  // the world's failure has been told where it was met
  }
  for (auto& step : captured_) step.reset();
  device_.destroy_stream(compute_);
  device_.destroy_stream(exchange_);
}

template <class Body>
void Tsunami::enqueue(const Body& body, std::int64_t items, Stream stream) {
  if (items <= 0) return;
  Grid grid;
  if (device_.kind() == DeviceKind::cuda) grid = {static_cast<int>(std::min<std::int64_t>(items, 1 << 16)), kThreads};
  launch(device_, kernel_of<Body>(), body, grid, stream);
}

template <class T>
T* Tsunami::allocate(std::int64_t count, MemoryKind kind) {
  memory_.push_back(world_->allocate(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(T), kind));
  return reinterpret_cast<T*>(memory_.back()->data());
}

void Tsunami::upload(void* destination, const void* source, std::size_t bytes) {
  device_.copy(destination, source, bytes, compute_);
  device_.synchronize(compute_);  // the source may go
}

void Tsunami::set_up_sea(const Problem& problem) {
  sea_.rows = block_.rows();
  sea_.columns = block_.columns();
  const std::int64_t pitch = sea_.pitch();
  const std::int64_t cells = (sea_.rows + 2) * pitch;
  std::vector<double> eta(cells), east(cells), north(cells), rows(sea_.rows + 2);
  const double push = problem.gravity * problem.time_step_s;
  const auto depth = [&](std::int64_t j, std::int64_t i) { return problem.depth_m[j * pitch + i]; };
  for (std::int64_t j = 0; j <= sea_.rows; ++j) {
    const std::int64_t row = block_.first_row + j - 1;  // of the whole sea
    if (j > 0) {
      rows[j] = problem.time_step_s / (problem.width_m[row] * problem.height_m);
      for (std::int64_t i = 0; i <= sea_.columns; ++i) {
        const double h = face_depth(depth(j, i), depth(j, i + 1));
        east[j * pitch + i] = push * h * problem.height_m / problem.width_m[row];
      }
      std::copy_n(&problem.elevation_m[(j - 1) * sea_.columns], sea_.columns, &eta[j * pitch + 1]);
    }
    for (std::int64_t i = 1; i <= sea_.columns; ++i) {
      const double h = face_depth(depth(j, i), depth(j + 1, i));
      north[j * pitch + i] = push * h * problem.face_width_m[row + 1] / problem.height_m;
    }
  }
  const auto array = [&](const std::vector<double>& values) {
    auto* to = allocate<double>(static_cast<std::int64_t>(values.size()));
    upload(to, values.data(), values.size() * sizeof(double));
    return to;
  };
  sea_.eta = array(eta);
  highest_ = array(eta);
  sea_.east = allocate<double>(cells);
  sea_.north = allocate<double>(cells);
  sea_.east_factor = array(east);
  sea_.north_factor = array(north);
  sea_.row_factor = array(rows);
  packed_ = allocate<double>(sea_.rows * sea_.columns);
  clock_ = allocate<std::uint64_t>(kClockWords);
  if (world_->rank() == 0) {
    std::int64_t largest = problem.steps;  // a gauge's series passes through the inbox too
    for (int rank = 0; rank < world_->size(); ++rank) {
      const Block block = block_of(rank, grid_, rows_, columns_);
      largest = std::max(largest, block.rows() * block.columns());
    }
    inbox_ = allocate<double>(largest, MemoryKind::pinned);
  }
}

void Tsunami::set_up_gauges(const Problem& problem) {
  gauges_ = problem.gauges;
  std::vector<std::int64_t> mine;
  std::vector<std::int64_t> counts(world_->size(), 0);
  for (const std::int64_t cell : gauges_) {
    const int owner = owner_of(cell);
    gauge_slot_.push_back(counts[owner]++);
    if (owner != world_->rank()) continue;
    mine.push_back((cell / columns_ - block_.first_row + 1) * sea_.pitch() + cell % columns_ - block_.first_column + 1);
  }
  record_.eta = sea_.eta;
  record_.gauges = static_cast<std::int64_t>(mine.size());
  record_.capacity = problem.steps;
  record_.samples = clock_ + kSamples;
  record_.series = allocate<double>(record_.gauges * record_.capacity);
  auto* cells = allocate<std::int64_t>(record_.gauges);
  if (!mine.empty()) upload(cells, mine.data(), mine.size() * sizeof(std::int64_t));
  record_.cells = cells;
}

int Tsunami::owner_of(std::int64_t cell) const {
  for (int rank = 0;; ++rank) {
    const Block block = block_of(rank, grid_, rows_, columns_);
    const std::int64_t row = cell / columns_;
    const std::int64_t column = cell % columns_;
    if (row >= block.first_row && row < block.last_row && column >= block.first_column && column < block.last_column) {
      return rank;
    }
  }
}

std::shared_ptr<Graph> Tsunami::capture(double* highest) {
  device_.begin_capture(compute_);
  enqueue_step(highest);
  return device_.end_capture(compute_);
}

void Tsunami::enqueue_step(double* highest) {
  const std::int64_t rim_blocks = (2 * (sea_.rows + sea_.columns) + kThreads - 1) / kThreads;
  enqueue(RaiseRim{sea_, highest}, rim_blocks, compute_);
  if (halo_) {
    // Replayed on the host, a captured step is run by one thread, which goes from branch to branch as long as it is not
    // held up: there the exchange lies between these two laps.
    const bool listed = device_.kind() == DeviceKind::host && device_.capturing(compute_);
    if (listed) lap(kComputeTotal);
    device_.wait(exchange_, device_.record(compute_));
    halo_->launch(exchange_);
    if (listed) lap(kWaitTotal);
  }
  enqueue(RaiseRows{sea_, highest}, sea_.rows - 2, compute_);
  enqueue(PushRows{sea_}, sea_.rows, compute_);
  lap(kComputeTotal);
  if (halo_) device_.wait(compute_, device_.record(exchange_));
  lap(kWaitTotal);
  enqueue(PushRim{sea_}, rim_blocks, compute_);
  if (record_.gauges > 0) enqueue(record_, 1, compute_);
}

// The time since the last lap goes to `total`.
void Tsunami::lap(std::int64_t total) { enqueue(Lap{clock_ + kClock, clock_ + total}, 1, compute_); }

void Tsunami::run(std::int64_t steps) {
  require(steps >= 0, "tsunami: cannot run ", steps, " steps");
  enqueue(Lap{clock_ + kClock, nullptr}, 1, compute_);
  for (std::int64_t step = 0; step < steps; ++step) {
    const bool keeps = steps_done_++ % 2 == 1;  // every second step keeps the highest water, of the one before it too
    if (captured_[keeps]) {
      device_.launch(captured_[keeps], compute_);
    } else {
      enqueue_step(keeps ? highest_ : nullptr);
    }
  }
  world_->synchronize(compute_);
}

std::vector<double> Tsunami::gather(Field field) {
  if (field == Field::highest) enqueue(KeepHighest{sea_, highest_}, sea_.rows, compute_);
  enqueue(Pack{sea_, field == Field::elevation ? sea_.eta : highest_, packed_}, sea_.rows, compute_);
  world_->synchronize(compute_);
  std::vector<double> whole(world_->rank() == 0 ? rows_ * columns_ : 0);
  for (int rank = 0; rank < world_->size(); ++rank) {
    const Block block = block_of(rank, grid_, rows_, columns_);
    const std::vector<double> part = collect(packed_, block.rows() * block.columns(), rank);
    if (world_->rank() != 0) continue;
    for (std::int64_t row = 0; row < block.rows(); ++row) {
      std::copy_n(&part[row * block.columns()], block.columns(),
                  &whole[(block.first_row + row) * columns_ + block.first_column]);
    }
  }
  world_->barrier();  // a rank may leave the world now: rank 0 has its part
  return whole;
}

std::vector<double> Tsunami::gauge(std::size_t index) {
  require(index < gauges_.size(), "tsunami: there is no gauge ", index, ", only ", gauges_.size());
  const double* series = record_.series + gauge_slot_[index] * record_.capacity;
  std::vector<double> whole = collect(series, std::min(steps_done_, record_.capacity), owner_of(gauges_[index]));
  world_->barrier();
  return whole;
}

// `count` doubles of the owner's device memory, in rank 0's vector.
std::vector<double> Tsunami::collect(const double* source, std::int64_t count, int owner) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
  const int me = world_->rank();
  if (owner != 0 && me == owner) require_ok(world_->send(source, bytes, 0, MessageOptions{}));
  if (me != 0) return {};
  if (owner == 0) {
    device_.copy(inbox_, source, bytes, compute_);
    world_->synchronize(compute_);
  } else {
    require_ok(world_->recv(inbox_, bytes, owner, MessageOptions{}));
  }
  return {inbox_, inbox_ + count};
}

void Tsunami::require_ok(Status status) const {
  if (status == Status::ok) return;
  world_->check();
  fail(ErrorCode::aborted, "tsunami: collecting the sea at rank 0 ended with ", name_of(status));
}

StepTimes Tsunami::times() const {
  std::uint64_t words[kClockWords] = {};
  auto host = world_->allocate(sizeof(words), MemoryKind::pinned);
  device_.copy(host->data(), clock_, sizeof(words), compute_);
  world_->synchronize(compute_);
  std::copy_n(reinterpret_cast<const std::uint64_t*>(host->data()), kClockWords, words);
  StepTimes times{static_cast<std::uint64_t>(steps_done_ - steps_reset_), words[kComputeTotal], words[kWaitTotal], 0,
                  0};
  if (!halo_) return times;
  const bool concurrent = device_.kind() == DeviceKind::cuda;  // there the ops of a plan run side by side
  for (const OpTime& op : halo_->times()) {
    times.exchange_move_ns =
        concurrent ? std::max(times.exchange_move_ns, op.move_ns) : times.exchange_move_ns + op.move_ns;
    times.exchange_wait_ns =
        concurrent ? std::max(times.exchange_wait_ns, op.wait_ns) : times.exchange_wait_ns + op.wait_ns;
  }
  return times;
}

void Tsunami::reset_times() {
  const std::uint64_t zeros[2] = {};
  upload(clock_ + kComputeTotal, zeros, sizeof(zeros));
  if (halo_) halo_->reset_times();
  steps_reset_ = steps_done_;
}

std::string Tsunami::explain() const { return halo_ ? halo_->explain() : "one rank: no halo is exchanged"; }

const std::vector<PlanOp>& Tsunami::exchanges() const {
  static const std::vector<PlanOp> none;
  return halo_ ? halo_->ops() : none;
}

}  // namespace onstream::tsunami
