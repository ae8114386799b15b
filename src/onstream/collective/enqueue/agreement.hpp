// Agreement: before the copy engine can move anything, the hosts tell each other where its data shall go, as a stream
// cannot look that up.
//
// Each host writes its messages (Say) into the other hosts' pinned memory, and reads theirs. The messages of a channel
// are numbered and alternate between two places: a host writes the next but one only after it has read its reader's
// next message, and the reader sends that only after it has read this one. Work on streams takes no part, so hosts may
// run ahead of it together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onstream/collective/call/call.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::collective {

// A message of one host to another.
struct Say {
  std::uint64_t number = 0;  // written last (release)
  std::uint64_t signature = 0;
  std::uint64_t output = 0;  // where the listener's device finds the output for its data
  std::uint64_t send_bytes = 0;
  std::array<char, 160> trouble{};  // why the speaker cannot go on, or ""

  void set_trouble(const std::string& text);  // as much of it as fits
};

// The name of one collective's waits, for when they fail.
struct Named {
  OpKind kind = OpKind::none;
  std::uint64_t bytes = 0;
  int channel = 0;
  std::uint64_t number = 0;
};

class Agreement {
 public:
  // The space in each rank's part of the segment, which begins with it.
  static std::size_t bytes(int world_size);

  Agreement(std::shared_ptr<Segment> segment, int world_rank, int world_size)
      : segment_(std::move(segment)), rank_(world_rank), size_(world_size) {}

  // Exchanges one message with each of `ranks` (of the world), of which this rank's own comes back. Waits for the hosts
  // of all of them to say theirs; past the deadline, or if one of them has left, the world fails, and this throws
  // timeout or aborted.
  std::vector<Say> exchange(Fabric& fabric, const std::vector<int>& ranks, std::vector<Say> mine, const Named& name);

 private:
  Say* place(int owner, int speaker) const;

  std::shared_ptr<Segment> segment_;
  int rank_;
  int size_;
  std::uint64_t number_ = 0;
};

}  // namespace onstream::collective
