// Operations on words (Device::operate) as a task of a host stream.
//
// A wait naps like any wait of the host's kernels, and knows as little of deadlines as a GPU's stream does. It ends
// early when the thread that runs it is interrupted (device/kernel/interrupt.hpp): the world is then aborted anyway.
#include <atomic>

#include "onstream/device/host/group.hpp"
#include "onstream/device/host/task.hpp"

namespace onstream::host {

namespace {

constexpr std::uint32_t kSpins = 256;

template <class Word>
bool holds(const WordOp& op) {
  const Word value = std::atomic_ref<Word>(*static_cast<Word*>(op.word))
                         .load(std::memory_order_acquire);  // pairs with the release of store()
  const Word wanted = static_cast<Word>(op.value);
  if (op.act == WordAct::wait_equal) return value == wanted;
  return static_cast<std::make_signed_t<Word>>(static_cast<Word>(value - wanted)) >= 0;
}

template <class Word>
void store(const WordOp& op) {
  std::atomic_ref<Word>(*static_cast<Word*>(op.word)).store(static_cast<Word>(op.value), std::memory_order_release);
}

template <class Word>
void perform(const WordOp& op) {
  if (op.act == WordAct::write) return store<Word>(op);
  for (std::uint32_t round = 0; !holds<Word>(op); ++round) {
    if (HostGroup::pause(round, kSpins) && HostGroup::interrupted()) return;
  }
}

}  // namespace

void WordTask::run() const {
  for (const WordOp& op : *ops) {
    if (op.bytes == 4) {
      perform<std::uint32_t>(op);
    } else {
      perform<std::uint64_t>(op);
    }
  }
}

}  // namespace onstream::host
