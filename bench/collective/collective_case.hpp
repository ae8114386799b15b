// One case of the collective bench, read from text that bench/collective/mpi_collectives.c reads too.
//
//   KIND:TYPE:OP:SUBMISSION:BYTES:ITERATIONS:WINDOW, for example all_reduce:float32:sum:captured:8:20:20
//
// BYTES is the size that NCCL's tests print: the vector of all_reduce, reduce, broadcast, scan; all that a rank
// gathers, scatters or exchanges of the others. A sample is the seconds of one collective: ITERATIONS times WINDOW of
// them follow each other on one stream.
//
// host           the host waits for every one
// eager          all are enqueued one by one, then the stream is synchronised
// captured       WINDOW are captured once in a graph, which is launched ITERATIONS times, then the stream is
// synchronised
#pragma once

#include <string>

#include "onstream/collective/call/call.hpp"

namespace onstream::bench {

enum class CollectiveSubmission { host, eager, captured };

struct CollectiveCase {
  OpKind kind = OpKind::all_reduce;
  ElementType type = ElementType::float32;
  ReduceOp op = ReduceOp::sum;
  CollectiveSubmission submission = CollectiveSubmission::host;
  std::size_t bytes = 0;
  int iterations = 1;
  int window = 1;

  // Elements of one rank's part, or of the vector, as in CollectiveCall::count.
  std::size_t count(int size) const;
  // The ratio of bus bandwidth to algorithm bandwidth, as in NCCL's tests.
  double bus_factor(int size) const;
};

const char* name_of(CollectiveSubmission submission);
// Throws invalid_argument naming the text and the field that cannot be read.
CollectiveCase collective_case_from(const std::string& text);
std::string text_of(const CollectiveCase& c);

}  // namespace onstream::bench
