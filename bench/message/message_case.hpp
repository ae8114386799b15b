// One case of the message bench, read from text that bench/message/mpi_peer.c reads too.
//
//   MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW, for example ping-pong:captured:8:20:100
//
// ping-pong      a sample is the seconds of one way, half a round trip; ITERATIONS times WINDOW round trips
// pipelined      rank 0 sends WINDOW messages, rank 1 acknowledges the window with 8 bytes, ITERATIONS times; a sample
//                is the seconds of one message
// bidirectional  both ranks send and receive WINDOW messages at once, ITERATIONS times; a sample is the seconds of one
//                message each way
// ring           every rank sends to the next and receives from the last, ITERATIONS times WINDOW steps; a sample is
//                the seconds of one step. Any number of ranks
// ring-plan      the same, each step one launch of a plan
// separate       rank 0 sends WINDOW messages to rank 1, each its own operation and its own part of the buffer,
//                ITERATIONS times; a sample is the seconds of one message
// aggregated     the same messages, the WINDOW prepared once and posted together: one launch of a plan
//
// host           the host waits for every message (or, where there is a window, for the window)
// eager          all operations are enqueued on a stream one by one, then the stream is synchronised
// captured       WINDOW operations are captured once in a graph, which is launched ITERATIONS times, then the stream is
//                synchronised. With separate and aggregated a graph holds kWindowsPerGraph windows
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace onstream::bench {

enum class Mode { ping_pong, pipelined, bidirectional, ring, ring_plan, separate, aggregated };
enum class Submission { host, eager, captured };

constexpr int kWindowsPerGraph = 20;

struct Case {
  Mode mode = Mode::ping_pong;
  Submission submission = Submission::host;
  std::size_t bytes = 0;
  int iterations = 1;
  int window = 1;

  bool rings() const { return mode == Mode::ring || mode == Mode::ring_plan; }
  bool one_way() const { return mode == Mode::pipelined || spread(); }
  bool spread() const { return mode == Mode::separate || mode == Mode::aggregated; }  // each message its own bytes
  std::size_t buffer_bytes() const { return spread() ? bytes * static_cast<std::size_t>(window) : bytes; }
};

const char* name_of(Mode mode);
const char* name_of(Submission submission);

// Throws Error(invalid_argument) naming the text and the field that cannot be read.
Case case_from(const std::string& text);

// Messages (of a ring: steps) that a sample of the case divides its seconds by.
double messages_of(const Case& c);

// One JSON object on one line: the case and the seconds of its samples.
std::string json_of(const Case& c, const std::vector<double>& samples_s);

}  // namespace onstream::bench
