#include "mailbox.hpp"

namespace onstream::am {

namespace {

constexpr std::size_t kAlignment = alignof(Slot);

constexpr std::size_t behind(std::size_t begin, std::size_t bytes) {
  return (begin + bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Mailbox::Mailbox(Fabric& fabric, std::size_t events, std::size_t buffers)
    : ranks_(static_cast<std::size_t>(fabric.size())),
      events_(events),
      buffers_(buffers),
      rows_(behind(0, AM_NPORTS * sizeof(Port))),
      addresses_(behind(rows_, buffers * sizeof(Row))),
      postings_(behind(addresses_, buffers * ranks_ * sizeof(std::uint64_t))),
      traffic_(behind(postings_, AM_NPORTS * buffers * 2 * sizeof(std::uint64_t))),
      rings_(behind(traffic_, ranks_ * sizeof(Traffic))),
      slots_(behind(rings_, AM_NPORTS * ranks_ * sizeof(Ring))),
      bytes_(behind(slots_, AM_NPORTS * ranks_ * events * sizeof(Slot))),
      segment_(fabric.segment(bytes_, MemoryKind::pinned)),
      window_(fabric, segment_) {
  for (int rank = 0; rank < fabric.size(); ++rank) parts_.push_back(segment_->peer(rank));
}

}  // namespace onstream::am
