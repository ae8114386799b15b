// One case of the message bench: what is measured, read from text that bench/mpi_peer.c reads too.
//
//   MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW, for example ping-pong:captured:8:20:100
//
// ping-pong      a sample is the seconds of one way, half a round trip; ITERATIONS times WINDOW round trips
// pipelined      rank 0 sends WINDOW messages, rank 1 acknowledges the window with 8 bytes, ITERATIONS times; a sample
// is
//                the seconds of one message
// bidirectional  both ranks send and receive WINDOW messages at once, ITERATIONS times; a sample is the seconds of one
//                message each way
//
// host           the host waits for every message (or, where there is a window, for the window)
// eager          all operations are enqueued on a stream one by one, then the stream is synchronised
// captured       WINDOW operations are captured once in a graph, which is launched ITERATIONS times, then the stream is
//                synchronised
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace onstream::bench {

enum class Mode { ping_pong, pipelined, bidirectional };
enum class Submission { host, eager, captured };

struct Case {
  Mode mode = Mode::ping_pong;
  Submission submission = Submission::host;
  std::size_t bytes = 0;
  int iterations = 1;
  int window = 1;
};

const char* name_of(Mode mode);
const char* name_of(Submission submission);

// Throws Error(invalid_argument) naming the text and the field that cannot be read.
Case case_from(const std::string& text);

// Messages that a sample of the case divides its seconds by.
double messages_of(const Case& c);

// One JSON object on one line: the case and the seconds of its samples.
std::string json_of(const Case& c, const std::vector<double>& samples_s);

// A JSON string literal.
std::string quoted(const std::string& text);

}  // namespace onstream::bench
