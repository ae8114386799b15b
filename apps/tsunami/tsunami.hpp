// Tsunami: one rank's part of a wave over a sea, advanced on two streams.
//
// A step is a list of enqueues: the block's rim is updated first and leaves through a halo plan on one stream while the
// other updates the inside; an event joins them before the fluxes through the block's outline. The list is captured
// once and replayed (Replay::captured) or enqueued every time (Replay::eager).
//
// Construction, run(), gather() and gauge() are collective over the world's ranks; the caller waits in each of them,
// bounded by the world's deadline. Not thread-safe. Throws Error; a failed world makes every later call throw.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels.hpp"
#include "onstream/plan.hpp"
#include "onstream/world.hpp"
#include "problem.hpp"

namespace onstream::tsunami {

// Where this rank's time went, over all steps since the last reset_times().
struct StepTimes {
  std::uint64_t steps = 0;
  std::uint64_t compute_ns = 0;        // compute stream: kernels
  std::uint64_t wait_ns = 0;           // compute stream: for the exchange
  std::uint64_t exchange_move_ns = 0;  // halo plan: moving bytes
  std::uint64_t exchange_wait_ns = 0;  // halo plan: for the neighbours
};

enum class Field : std::int32_t { elevation, highest };

class Tsunami {
 public:
  // Throws invalid_argument naming the field of the problem that cannot work, with its values.
  Tsunami(std::shared_ptr<World> world, const Problem& problem);
  ~Tsunami();
  Tsunami(const Tsunami&) = delete;
  Tsunami& operator=(const Tsunami&) = delete;

  // Advances by `steps` and waits for them.
  void run(std::int64_t steps);

  // Rank 0: the field of the whole sea, rows x columns. Other ranks: empty.
  std::vector<double> gather(Field field);
  // Rank 0: the elevation at a gauge after every step so far. Other ranks: empty.
  std::vector<double> gauge(std::size_t index);

  const Block& block() const { return block_; }
  const std::vector<int>& grid() const { return grid_; }
  std::int64_t steps_done() const { return steps_done_; }
  StepTimes times() const;
  void reset_times();
  std::string explain() const;  // the halo plan's table
  const std::vector<PlanOp>& exchanges() const;

 private:
  template <class Body>
  void enqueue(const Body& body, std::int64_t items, Stream stream);
  template <class T>
  T* allocate(std::int64_t count, MemoryKind kind = MemoryKind::device);
  void upload(void* destination, const void* source, std::size_t bytes);
  void set_up_sea(const Problem& problem);
  void set_up_gauges(const Problem& problem);
  std::shared_ptr<Graph> capture(double* highest);
  void enqueue_step(double* highest);
  void lap(std::int64_t total);
  int owner_of(std::int64_t cell) const;
  std::vector<double> collect(const double* source, std::int64_t count, int owner);
  void require_ok(Status status) const;

  std::shared_ptr<World> world_;
  Device& device_;
  std::vector<int> grid_;
  Block block_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t steps_done_ = 0;
  std::int64_t steps_reset_ = 0;                 // when the times were last reset
  std::vector<std::shared_ptr<Memory>> memory_;  // all that the pointers below refer to
  Sea sea_;
  double* highest_ = nullptr;  // ever, except the last step's if that was an odd one
  double* packed_ = nullptr;
  double* inbox_ = nullptr;         // rank 0, pinned: one block of any rank
  std::uint64_t* clock_ = nullptr;  // clock, compute and wait totals, samples: kClockWords
  Record record_;
  std::vector<std::int64_t> gauges_;      // cells of the whole sea
  std::vector<std::int64_t> gauge_slot_;  // in the owner's series; by gauge
  Stream compute_;
  Stream exchange_;
  std::shared_ptr<Plan> halo_;
  std::shared_ptr<Graph> captured_[2];  // a step that keeps nothing, and one that keeps the highest water
};

}  // namespace onstream::tsunami
