// Many posted sends, or many waits for posted sends, of one lane in one launch; send.hpp has the single ones. The list
// travels in the kernel's arguments, so it needs no memory of its own.
#pragma once

#include "onstream/lane/await_send.hpp"
#include "onstream/lane/send.hpp"

namespace onstream::lane {

// One of a list; everything else is the same for all.
struct ListedSend {
  const void* source = nullptr;
  std::uint64_t bytes = 0;
  Ticket ticket;
};

constexpr int kMostItems = 64;

// Posted sends that travel in the ring. One block.
struct SendMany {
  Send common;
  std::int32_t count = 0;
  ListedSend items[kMostItems];

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    Send one = common;
    for (int i = 0; i < count; ++i) {
      one.source = items[i].source;
      one.bytes = items[i].bytes;
      one.ticket = items[i].ticket;
      (void)one.small(group);
      group.sync();  // the first thread has advanced the lane's counters
    }
  }
};

// Waits for one after the other. The source is null for those that travel in the ring.
struct AwaitSendMany {
  AwaitLargeSend common;
  std::int32_t count = 0;
  ListedSend items[kMostItems];

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    Fetcher fetcher(common.wait, common.crew);
    if (group.block() != 0) return fetcher.help(group);
    AwaitLargeSend one = common;
    for (int i = 0; i < count; ++i) {
      one.source = items[i].source;
      one.bytes = items[i].bytes;
      one.ticket = items[i].ticket;
      if (one.source != nullptr) {
        one.see_to(group, fetcher);
      } else {
        one.AwaitSend::operator()(group);
      }
    }
    fetcher.dismiss(group);
  }
};

static_assert(sizeof(SendMany) <= 4096 && sizeof(AwaitSendMany) <= 4096, "a kernel's arguments end there");

}  // namespace onstream::lane
