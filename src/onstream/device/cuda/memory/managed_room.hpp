// How much more managed memory a GPU takes: more than fits moves back and forth for ever, and hangs whole GPUs.
//
// The driver tells how much of a GPU is free. Managed memory counts as used there only while it is on the GPU, so the
// bytes that this process holds are counted here, wherever their pages are. While this process holds none, the used
// bytes are the others' use; later, that is known only to lie between the used bytes and those less the held bytes. So
// bytes that others take while held pages are on the host are not seen, and bytes that they give back meanwhile may
// still be counted. Plain arithmetic; the owner locks.
#pragma once

#include <algorithm>
#include <cstddef>

namespace onstream::cuda {

class ManagedRoom {
 public:
  std::size_t held() const { return held_; }
  std::size_t others() const { return others_; }  // as left() took it last

  // How many bytes may be taken now, with so much of the GPU's memory free.
  std::size_t left(std::size_t free, std::size_t total) {
    const std::size_t used = total - std::min(free, total);
    const std::size_t least = used - std::min(used, held_);  // if all that is held is on the GPU
    others_ = held_ == 0 ? used : std::clamp(others_, least, used);
    const std::size_t taken = others_ + std::min(held_, total - others_);
    return std::min(total - taken, free);
  }
  void take(std::size_t bytes) { held_ += bytes; }
  void give_back(std::size_t bytes) { held_ -= bytes; }

 private:
  std::size_t held_ = 0;    // by this process
  std::size_t others_ = 0;  // used by all others, as far as is known
};

}  // namespace onstream::cuda
