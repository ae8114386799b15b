#include "message_modes.hpp"

#include <algorithm>
#include <cstring>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "pattern.hpp"

namespace onstream::bench {

Runner::Runner(Library& library)
    : library_(library),
      rank_(library.rank()),
      next_((library.rank() + 1) % library.size()),
      last_((library.rank() + library.size() - 1) % library.size()),
      stream_(library.device().create_stream()),
      second_(library.device().create_stream()) {
  require(library.size() >= 2, "the message bench needs 2 ranks or more, this job has ", library.size());
}

Runner::~Runner() {
  library_.device().destroy_stream(stream_);
  library_.device().destroy_stream(second_);
}

std::vector<double> Runner::run(const Case& c, int samples) {
  require(c.rings() || library_.size() == 2, "mode ", name_of(c.mode), " is between 2 ranks, this job has ",
          library_.size(), "; with more there are ring and ring-plan");
  library_.begin_case();
  prepare(c);
  fill(c);
  handshake();
  std::vector<Graphs> graphs;
  if (c.submission != Submission::host) warm_up(c);
  if (c.submission == Submission::captured) graphs = capture(c);

  std::vector<double> seconds;
  for (int sample = -1; sample < samples; ++sample) {  // -1: the warm-up
    handshake();
    const std::uint64_t start = now_ns();
    run_once(c, graphs);
    const double elapsed_s = static_cast<double>(now_ns() - start) * 1e-9;
    if (sample >= 0) seconds.push_back(elapsed_s / messages_of(c));
  }
  verify(c);
  handshake();  // nobody prepares the next case while another still checks this one
  batch_ = nullptr;
  return seconds;
}

void Runner::run_once(const Case& c, const std::vector<Graphs>& graphs) {
  if (c.submission == Submission::host) return library_.run_host(c);
  for (int i = 0; i < c.iterations; ++i) {
    if (graphs.empty()) {
      enqueue_window(c);
      continue;
    }
    const Graphs& window = graphs[replays_++ % graphs.size()];
    library_.device().launch(window.first, stream_);
    if (window.second != nullptr) library_.device().launch(window.second, second_);
  }
  synchronize();
}

// When it has gone round to rank 0 all ranks have come. Rank 0 is the last to leave.
void Runner::handshake() {
  const Span word{Channel::control, 0, kWordBytes};
  if (rank_ == 0) {
    library_.send(word, next_, stream_);
    library_.recv(word, last_, stream_);
  } else {
    library_.recv(word, last_, stream_);
    library_.send(word, next_, stream_);
  }
  library_.synchronize(stream_);
}

void Runner::prepare(const Case& c) {
  const auto part = [&](int w) { return Span{Channel::data, static_cast<std::size_t>(w) * c.bytes, c.bytes}; };
  if (c.mode == Mode::ring_plan) {
    batch_ = library_.prepare({{Step::Kind::send, part(0), next_}, {Step::Kind::recv, part(0), last_}});
  } else if (c.mode == Mode::aggregated) {
    std::vector<Step> steps;
    for (int w = 0; w < c.window; ++w) {
      steps.push_back({rank_ == 0 ? Step::Kind::send : Step::Kind::recv, part(w), 1 - rank_});
    }
    batch_ = library_.prepare(steps);
  }
}

// Libraries connect, register and load on first use, and none of it may happen while a stream is capturing.
void Runner::warm_up(const Case& c) {
  enqueue_window(c);
  synchronize();
}

void Runner::enqueue_window(const Case& c) {
  const Span whole{Channel::data, 0, c.bytes};
  const Span word{Channel::control, 0, kWordBytes};
  if (c.mode == Mode::aggregated) return batch_->post(stream_);
  for (int w = 0; w < c.window; ++w) {
    const Span part{Channel::data, static_cast<std::size_t>(w) * c.bytes, c.bytes};
    switch (c.mode) {
      case Mode::ping_pong:
        if (rank_ == 0) library_.send(whole, 1, stream_);
        library_.recv(whole, 1 - rank_, stream_);
        if (rank_ == 1) library_.send(whole, 0, stream_);
        break;
      case Mode::pipelined: rank_ == 0 ? library_.send(whole, 1, stream_) : library_.recv(whole, 0, stream_); break;
      case Mode::separate: rank_ == 0 ? library_.send(part, 1, stream_) : library_.recv(part, 0, stream_); break;
      case Mode::bidirectional: library_.exchange(whole, 1 - rank_, 1 - rank_, stream_, second_); break;
      case Mode::ring: library_.ring_step(whole, next_, last_, stream_); break;
      case Mode::ring_plan: batch_->post(stream_); break;
      case Mode::aggregated: break;
    }
  }
  if (c.mode != Mode::pipelined) return;
  rank_ == 0 ? library_.recv(word, 1, stream_) : library_.send(word, 0, stream_);
}

std::vector<Runner::Graphs> Runner::capture(const Case& c) {
  Device& device = library_.device();
  const bool both = c.mode == Mode::bidirectional;
  const bool in_turn = library_.variants() > 1;
  require(!in_turn || !c.rings() || c.window >= library_.size(), "this library needs rings of at least ",
          library_.size(), " steps in a graph, the case has ", c.window);
  std::vector<Graphs> graphs;
  for (int variant = 0; variant < library_.variants(); ++variant) {
    device.begin_capture(stream_);
    if (both) device.begin_capture(second_);
    library_.begin_variant(variant, stream_);
    for (int i = 0; i < (c.spread() ? kWindowsPerGraph : 1); ++i) enqueue_window(c);
    Graphs window{device.end_capture(stream_), nullptr};
    if (both) window.second = device.end_capture(second_);
    graphs.push_back(window);
  }
  library_.end_variants();
  replays_ = 0;
  return graphs;
}

void Runner::synchronize() {
  library_.synchronize(stream_);
  library_.synchronize(second_);
}

std::uint64_t Runner::seed(int from, std::size_t bytes) const {
  return static_cast<std::uint64_t>(from + 1) * 0x1000003u + bytes;
}

void Runner::fill(const Case& c) {
  const std::size_t bytes = c.buffer_bytes();
  write_pattern(library_.device(), library_.outgoing(Channel::data), bytes, seed(rank_, bytes), stream_);
  write_zeros(library_.device(), library_.incoming(Channel::data), bytes, stream_);
}

void Runner::verify(const Case& c) {
  const bool receives = !c.one_way() || rank_ == 1;
  if (!receives) return;
  const std::size_t bytes = c.buffer_bytes();
  const int from = c.rings() ? last_ : 1 - rank_;
  const std::string difference =
      find_difference(library_.device(), library_.incoming(Channel::data), bytes, seed(from, bytes), stream_);
  if (difference.empty()) return;
  fail(ErrorCode::system, "rank ", rank_, ": wrong data in ", name_of(c.mode), " ", name_of(c.submission), " of ",
       c.bytes, " B: ", difference);
}

}  // namespace onstream::bench
