#include "message_modes.hpp"

#include <algorithm>
#include <array>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"

namespace onstream::bench {

namespace {

constexpr std::size_t kWordBytes = 8;

std::byte pattern(std::size_t i, int from, std::size_t bytes) {
  return static_cast<std::byte>(i * 7 + i / 251 + 31 * static_cast<std::size_t>(from + 1) + bytes);
}

void check(Status status, const char* what) {
  if (status != Status::ok) fail(ErrorCode::aborted, what, " ended with status ", name_of(status));
}

}  // namespace

Buffer::Buffer(World& world, std::size_t bytes, MemoryKind kind) {
  if (kind == MemoryKind::host) {
    plain_.resize(bytes);
    data_ = plain_.data();
  } else {
    memory_ = world.allocate(bytes, kind);
    data_ = memory_->data();
  }
}

Runner::Runner(World& world, MemoryKind kind, Path path, std::size_t largest)
    : world_(world),
      rank_(world.rank()),
      peer_(1 - world.rank()),
      options_{.lane = 0, .path = path},
      control_{.lane = 1, .path = Path::automatic},
      outgoing_(world, std::max(largest, kWordBytes), kind),
      incoming_(world, std::max(largest, kWordBytes), kind),
      word_(world, kWordBytes, kind),
      stream_(world.device().create_stream()),
      second_(world.device().create_stream()) {
  require(world.size() == 2, "the message bench needs 2 ranks, this world has ", world.size());
}

Runner::~Runner() {
  world_.device().destroy_stream(stream_);
  world_.device().destroy_stream(second_);
}

std::vector<double> Runner::run(const Case& c, int samples) {
  fill(c.bytes);
  world_.barrier();
  std::vector<std::shared_ptr<Graph>> graphs;
  if (c.submission == Submission::captured) graphs = capture_window(c);
  const std::array<Stream, 2> streams = {stream_, second_};

  std::vector<double> seconds;
  for (int sample = -1; sample < samples; ++sample) {  // -1: the warm-up
    handshake();
    const std::uint64_t start = now_ns();
    if (c.submission == Submission::host) {
      run_host(c);
    } else {
      for (int i = 0; i < c.iterations; ++i) {
        if (graphs.empty()) enqueue_window(c);
        for (std::size_t g = 0; g < graphs.size(); ++g) world_.device().launch(graphs[g], streams[g]);
      }
      synchronize();
    }
    const double elapsed_s = static_cast<double>(now_ns() - start) * 1e-9;
    if (sample >= 0) seconds.push_back(elapsed_s / messages_of(c));
  }
  verify(c);
  return seconds;
}

// Both hosts leave within one message of each other.
void Runner::handshake() {
  if (rank_ == 0) {
    check(world_.send(word_.data(), kWordBytes, peer_, control_), "handshake, send");
    check(world_.recv(word_.data(), kWordBytes, peer_, control_), "handshake, recv");
  } else {
    check(world_.recv(word_.data(), kWordBytes, peer_, control_), "handshake, recv");
    check(world_.send(word_.data(), kWordBytes, peer_, control_), "handshake, send");
  }
}

void Runner::fill(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = pattern(i, rank_, bytes);
  const std::vector<std::byte> zeros(bytes);
  if (bytes == 0) return;
  world_.device().copy(outgoing_.data(), values.data(), bytes, stream_);
  world_.device().copy(incoming_.data(), zeros.data(), bytes, stream_);
  world_.synchronize(stream_);
}

void Runner::verify(const Case& c) {
  if (c.bytes == 0 || (rank_ == 0 && c.mode == Mode::pipelined)) return;
  std::vector<std::byte> values(c.bytes);
  world_.device().copy(values.data(), incoming_.data(), c.bytes, stream_);
  world_.synchronize(stream_);
  for (std::size_t i = 0; i < c.bytes; ++i) {
    const std::byte expected = pattern(i, peer_, c.bytes);
    if (values[i] == expected) continue;
    fail(ErrorCode::system, "rank ", rank_, ": wrong data in ", name_of(c.mode), " ", name_of(c.submission), " of ",
         c.bytes, " B: byte ", i, " is ", static_cast<int>(values[i]), " instead of ", static_cast<int>(expected));
  }
}

void Runner::run_host(const Case& c) {
  switch (c.mode) {
    case Mode::ping_pong: return host_ping_pong(c);
    case Mode::pipelined: return host_pipelined(c);
    case Mode::bidirectional: return host_bidirectional(c);
  }
}

void Runner::host_ping_pong(const Case& c) {
  const long rounds = static_cast<long>(c.iterations) * c.window;
  for (long i = 0; i < rounds; ++i) {
    if (rank_ == 0) {
      check(world_.send(outgoing_.data(), c.bytes, peer_, options_), "send");
      check(world_.recv(incoming_.data(), c.bytes, peer_, options_), "recv");
    } else {
      check(world_.recv(incoming_.data(), c.bytes, peer_, options_), "recv");
      check(world_.send(outgoing_.data(), c.bytes, peer_, options_), "send");
    }
  }
}

void Runner::host_pipelined(const Case& c) {
  for (int i = 0; i < c.iterations; ++i) {
    requests_.clear();
    for (int w = 0; w < c.window; ++w) {
      requests_.push_back(rank_ == 0 ? world_.isend(outgoing_.data(), c.bytes, peer_, options_)
                                     : world_.irecv(incoming_.data(), c.bytes, peer_, options_));
    }
    for (const auto& request : requests_) check(world_.wait(request), "wait");
    if (rank_ == 0) {
      check(world_.recv(word_.data(), kWordBytes, peer_, control_), "acknowledgement, recv");
    } else {
      check(world_.send(word_.data(), kWordBytes, peer_, control_), "acknowledgement, send");
    }
  }
}

void Runner::host_bidirectional(const Case& c) {
  for (int i = 0; i < c.iterations; ++i) {
    requests_.clear();
    for (int w = 0; w < c.window; ++w) requests_.push_back(world_.irecv(incoming_.data(), c.bytes, peer_, options_));
    for (int w = 0; w < c.window; ++w) requests_.push_back(world_.isend(outgoing_.data(), c.bytes, peer_, options_));
    for (const auto& request : requests_) check(world_.wait(request), "wait");
  }
}

void Runner::enqueue_window(const Case& c) {
  for (int w = 0; w < c.window; ++w) {
    const bool sends_first = rank_ == 0 || c.mode == Mode::bidirectional;
    const bool sends = c.mode != Mode::pipelined || rank_ == 0;
    const bool receives = c.mode != Mode::pipelined || rank_ == 1;
    const Stream receiving = c.mode == Mode::bidirectional ? second_ : stream_;
    if (sends && sends_first) world_.send(outgoing_.data(), c.bytes, peer_, options_, stream_);
    if (receives) world_.recv(incoming_.data(), c.bytes, peer_, options_, receiving);
    if (sends && !sends_first) world_.send(outgoing_.data(), c.bytes, peer_, options_, stream_);
  }
  if (c.mode != Mode::pipelined) return;
  if (rank_ == 0) {
    world_.recv(word_.data(), kWordBytes, peer_, control_, stream_);
  } else {
    world_.send(word_.data(), kWordBytes, peer_, control_, stream_);
  }
}

// The graphs of stream_ and, in the bidirectional mode, of second_.
std::vector<std::shared_ptr<Graph>> Runner::capture_window(const Case& c) {
  const bool both = c.mode == Mode::bidirectional;
  Device& device = world_.device();
  device.begin_capture(stream_);
  if (both) device.begin_capture(second_);
  enqueue_window(c);
  std::vector<std::shared_ptr<Graph>> graphs = {device.end_capture(stream_)};
  if (both) graphs.push_back(device.end_capture(second_));
  return graphs;
}

void Runner::synchronize() {
  world_.synchronize(stream_);
  world_.synchronize(second_);
}

}  // namespace onstream::bench
