#include "onstream/one_sided/proxy/remote_slots.hpp"

#include <cstring>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/zero_pages.hpp"
#include "onstream/device/host/group.hpp"

namespace onstream::one_sided {

namespace {

constexpr net::ServiceNumber kService = net::ServiceNumber::one_sided;
constexpr std::size_t kSlotBytes = sizeof(ProxyRequest) + RemoteSlots::kChunkBytes;

enum class SlotMessage : std::uint32_t { request = 1, receipt };

// The first bytes of every network message.
struct SlotHeader {
  SlotMessage kind;
  std::uint32_t slot;
  std::uint64_t work;  // of a request: its words
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t value;
};
static_assert(sizeof(SlotHeader) < net::kMaxHeaderBytes);

net::Bytes bytes_of(const SlotHeader& header) { return std::as_bytes(std::span(&header, 1)); }

constexpr std::uint64_t token_of(int peer, std::size_t number) {
  return static_cast<std::uint64_t>(peer) * RemoteSlots::kSlots + number;
}

}  // namespace

RemoteSlots::RemoteSlots(const Fabric& fabric, Perform perform)
    : network_(fabric.network()),
      perform_(std::move(perform)),
      memory_(zero_pages(static_cast<std::size_t>(fabric.size()) * (kSlots * kSlotBytes + sizeof(std::uint64_t)),
                         "one-sided ops on ranks of other hosts")),
      asks_(reinterpret_cast<std::uint64_t*>(memory_.get() + token_of(fabric.size(), 0) * kSlotBytes)),
      peers_(static_cast<std::size_t>(fabric.size())),
      reply_(kChunkBytes) {
  network_->serve(kService, *this);
}

RemoteSlots::~RemoteSlots() { network_->withdraw(kService); }

ProxyRequest* RemoteSlots::slot(int peer, std::size_t number) const {
  return reinterpret_cast<ProxyRequest*>(memory_.get() + token_of(peer, number) * kSlotBytes);
}

void RemoteSlots::open(int peer) {
  if (of(peer).opened.load(std::memory_order_relaxed)) return;
  network_->with([&] {
    if (!of(peer).opened.exchange(true, std::memory_order_relaxed)) open_.push_back(peer);
  });
}

bool RemoteSlots::look() {
  bool sent = false;
  for (const int peer : open_) {
    if (HostGroup::load_relaxed(asks(peer)) == 0 || of(peer).lost) continue;
    // One that comes meanwhile is seen now, or sets the word again.
    (void)std::atomic_ref(*asks(peer)).exchange(0, std::memory_order_acq_rel);
    for (std::size_t number = 0; number < kSlots; ++number) {
      const ProxyRequest* const request = slot(peer, number);
      if (of(peer).slots[number].asked || HostGroup::load_acquire(&request->work) == 0) continue;
      ask(peer, number, *request);
      sent = true;
    }
  }
  return sent;
}

// A few bytes are copied; more leave from the slot, which is not free before the network is through with them.
void RemoteSlots::ask(int peer, std::size_t number, const ProxyRequest& request) {
  constexpr std::size_t kFew = 1024;
  SlotState& state = of(peer).slots[number];
  state = {.asked = true};
  const SlotHeader header{SlotMessage::request, static_cast<std::uint32_t>(number),
                          request.work,         request.address,
                          request.bytes,        request.value};
  const net::Bytes data{reinterpret_cast<const std::byte*>(&request + 1), beside(request).there};
  if (data.size() <= kFew) return network_->send(kService, peer, bytes_of(header), data);
  state.lent = !network_->send_in_place(kService, peer, bytes_of(header), data, token_of(peer, number));
}

void RemoteSlots::on_message(int peer, net::Bytes bytes, net::Bytes payload) {
  SlotHeader header{};
  require(bytes.size() == sizeof(header), "rank ", peer, " sent a header of ", bytes.size(), " B for a one-sided op");
  std::memcpy(&header, bytes.data(), sizeof(header));
  require(header.slot < kSlots, "rank ", peer, " names slot ", header.slot, " of its ", kSlots);
  if (header.kind == SlotMessage::receipt) return take_receipt(peer, header.slot, payload);
  require(header.kind == SlotMessage::request, "rank ", peer, " sent a one-sided message of unknown kind");
  carry_out(peer, header.slot, {header.work, header.address, header.bytes, header.value}, payload);
}

void RemoteSlots::carry_out(int peer, std::uint32_t number, const ProxyRequest& request, net::Bytes payload) {
  const BytesBeside count = beside(request);
  require(payload.size() == count.there && count.back <= kChunkBytes, "rank ", peer, " sent ", payload.size(),
          " B for a one-sided op with ", count.there, " B, and asks for ", count.back, " B");
  // An atomic's expected value is replaced by the old one; the bytes of a put are only read.
  std::byte* data = reply_.data();
  if (count.back == 0 && count.there > 0) {
    data = const_cast<std::byte*>(payload.data());
  } else if (count.there > 0) {
    std::memcpy(data, payload.data(), payload.size());
  }
  if (!perform_(peer, request, data)) return;
  const SlotHeader receipt{SlotMessage::receipt, number, 0, 0, 0, 0};
  network_->send(kService, peer, bytes_of(receipt), {reply_.data(), count.back});
}

void RemoteSlots::take_receipt(int peer, std::size_t number, net::Bytes payload) {
  SlotState& state = of(peer).slots[number];
  ProxyRequest* const request = slot(peer, number);
  require(state.asked && !state.answered && payload.size() == beside(*request).back, "rank ", peer,
          " sent a receipt with ", payload.size(), " B for slot ", number, ", which asks for none such");
  if (!payload.empty()) std::memcpy(request + 1, payload.data(), payload.size());
  state.answered = true;
  end_if_over(peer, number);
}

void RemoteSlots::on_released(std::uint64_t token) {
  const auto peer = static_cast<int>(token / kSlots);
  of(peer).slots[token % kSlots].lent = false;
  end_if_over(peer, token % kSlots);
}

void RemoteSlots::end_if_over(int peer, std::size_t number) {
  SlotState& state = of(peer).slots[number];
  if (!state.answered || state.lent) return;
  state = {};
  HostGroup::store_release(&slot(peer, number)->work, 0);  // pairs with the asker's wait
}

void RemoteSlots::on_lost(int peer) { of(peer).lost = true; }

}  // namespace onstream::one_sided
