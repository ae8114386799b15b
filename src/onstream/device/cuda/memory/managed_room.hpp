// How much more managed memory a GPU takes: more than fits moves back and forth for ever, and hangs whole GPUs.
//
// The driver tells how much of a GPU is free. Managed memory counts as used there only while it is on the GPU, so what
// this process holds is counted here, wherever its pages are. What others use was told while nothing was held; later,
// it is known to lie between what is used now and that less what is held. So what others take while held pages are on
// the host is not seen, and what they give back meanwhile may still be counted. Plain arithmetic; the owner locks.
#pragma once

#include <algorithm>
#include <cstddef>

namespace onstream::cuda {

class ManagedRoom {
 public:
  std::size_t held() const { return held_; }
  std::size_t others() const { return others_; }  // as left() took it last

  // What may be taken now, with so much of the GPU's memory free.
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
  std::size_t others_ = 0;  // used by whatever else there is, as far as is known
};

}  // namespace onstream::cuda
