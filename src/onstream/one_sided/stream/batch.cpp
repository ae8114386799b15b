#include "onstream/one_sided.hpp"

#include <algorithm>
#include <cstring>

#include "onstream/base/error.hpp"
#include "onstream/layout/cursor.hpp"
#include "onstream/one_sided/stream/implementation.hpp"

namespace onstream {

using one_sided::Proxy;
using one_sided::ProxyWork;
using one_sided::Step;
using one_sided::StepKind;
using one_sided::wait_step;

namespace {

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

Step store_step(std::uint64_t target, std::uint64_t value, std::size_t width) {
  Step step;
  step.kind = StepKind::store;
  step.width = static_cast<std::uint8_t>(width);
  step.target = target;
  step.source = value;
  return step;
}

// The widest word that may be stored at `target` when `bytes` are left.
std::size_t word_at(std::uint64_t target, std::size_t bytes) {
  if (target % 8 == 0 && bytes >= 8) return 8;
  return target % 4 == 0 && bytes >= 4 ? 4 : 1;
}

// Whether a copy of a word and the store of another can be one store of an aligned 16 bytes.
bool lie_together(const Step& copy, const Step& store) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  return copy.kind == StepKind::copy && store.kind == StepKind::store && copy.peer == store.peer &&
         copy.bytes == kWord && store.width == kWord && (copy.target ^ store.target) == kWord &&
         (copy.source | copy.target | store.target) % kWord == 0;
}

// Calls claim(begin, end) for as many chunks as there are slots. One claim for all would keep other streams waiting for
// long, and on a GPU, where two streams may share a hardware queue, hold up the very launches that they wait for.
template <class Claim>
void each_claim(const Proxy& proxy, int peer, std::size_t bytes, const Claim& claim) {
  const std::size_t most = proxy.slots(peer) * proxy.chunk_bytes(peer);
  for (std::size_t begin = 0; begin < bytes; begin += most) claim(begin, std::min(begin + most, bytes));
}

void check_word(const char* what, std::uint64_t address, std::size_t width) {
  require(width == 4 || width == 8, what, ": a word has 4 or 8 bytes, not ", width);
  require(address != 0 && address % width == 0, what, ": the word of ", width, " B at ",
          reinterpret_cast<const void*>(address), " is not aligned to its size");
}

}  // namespace

Step one_sided::wait_step(const void* word, const Until& until) {
  check_word("wait", address_of(word), until.width);
  Step step;
  step.kind = StepKind::wait;
  step.width = static_cast<std::uint8_t>(until.width);
  step.compare = until.compare;
  step.sign = until.sign;
  step.target = address_of(word);
  step.source = until.value;
  return step;
}

Batch::Batch(OneSided& one_sided) : Batch(*one_sided.implementation_) {}

void Batch::put(const Remote& to, const void* source, std::size_t bytes) {
  const std::uint64_t target = to.window.at(to.rank, to.offset, bytes);
  if (bytes == 0) return;
  require(source != nullptr, "put: the source of ", bytes, " B is a null pointer");
  if (!asks_proxy(to)) return add_copy(target, address_of(source), bytes, to.rank, address_of(source));
  const Proxy& proxy = one_sided_->proxy();
  const std::size_t chunk = proxy.chunk_bytes(to.rank);
  each_claim(proxy, to.rank, bytes, [&](std::size_t begin, std::size_t end) {
    std::size_t slots = 0;
    claim_proxy(to.rank);
    for (std::size_t done = begin; done < end; done += chunk, ++slots) {
      const std::size_t now = std::min(chunk, end - done);
      const std::uint64_t from = address_of(source) + done;
      add_copy(address_of(proxy.data(to.rank, slots)), from, now, to.rank, from);
      ask_proxy(to.rank, slots, {asked_of(to, ProxyWork::put), target + done, now, 0});
    }
    for (std::size_t slot = 0; slot < slots; ++slot) await_proxy(to.rank, slot);
    release_proxy(to.rank);
  });
}

void Batch::get(void* destination, const Remote& from, std::size_t bytes) {
  const std::uint64_t source = from.window.at(from.rank, from.offset, bytes);
  if (bytes == 0) return;
  require(destination != nullptr, "get: the destination of ", bytes, " B is a null pointer");
  if (!asks_proxy(from)) return add_copy(address_of(destination), source, bytes, from.rank, address_of(destination));
  const Proxy& proxy = one_sided_->proxy();
  const std::size_t chunk = proxy.chunk_bytes(from.rank);
  each_claim(proxy, from.rank, bytes, [&](std::size_t begin, std::size_t end) {
    const auto bytes_at = [&](std::size_t done) { return std::min(chunk, end - done); };
    std::size_t slots = 0;
    claim_proxy(from.rank);
    for (std::size_t done = begin; done < end; done += chunk, ++slots) {
      ask_proxy(from.rank, slots, {asked_of(from, ProxyWork::get), source + done, bytes_at(done), 0});
    }
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const std::size_t done = begin + slot * chunk;
      const std::uint64_t to = address_of(destination) + done;
      await_proxy(from.rank, slot);
      add_copy(to, address_of(proxy.data(from.rank, slot)), bytes_at(done), from.rank, to);
    }
    release_proxy(from.rank);
  });
}

namespace {

// Calls piece(offset in `to`, offset in `from`, bytes) for each run that is contiguous on both sides, in order.
template <class LayoutPiece>
void each_piece(const char* what, const Layout& to, const Layout& from, const LayoutPiece& piece) {
  require(to.bytes() == from.bytes(), what, ": layouts of equal bytes, but the destination is ", to.describe(),
          " and the source ", from.describe());
  Cursor writer(to.view(), 0);
  Cursor reader(from.view(), 0);
  for (std::size_t left = to.bytes(); left > 0;) {
    const std::size_t now = std::min<std::size_t>({left, writer.run_left(), reader.run_left()});
    piece(writer.offset(), reader.offset(), now);
    writer.advance(now);
    reader.advance(now);
    left -= now;
  }
}

Remote moved(const Remote& place, std::int64_t offset) {
  return {place.window, place.rank, place.offset + static_cast<std::size_t>(offset)};
}

}  // namespace

void Batch::put(const Remote& to, const Layout& to_layout, const void* source, const Layout& source_layout) {
  each_piece("put", to_layout, source_layout, [&](std::int64_t there, std::int64_t here, std::size_t bytes) {
    put(moved(to, there), static_cast<const std::byte*>(source) + here, bytes);
  });
}

void Batch::get(void* destination, const Layout& to_layout, const Remote& from, const Layout& from_layout) {
  each_piece("get", to_layout, from_layout, [&](std::int64_t here, std::int64_t there, std::size_t bytes) {
    get(static_cast<std::byte*>(destination) + here, moved(from, there), bytes);
  });
}

void Batch::put_now(const Remote& to, const void* source, std::size_t bytes) {
  const std::uint64_t target = to.window.at(to.rank, to.offset, bytes);
  require(source != nullptr || bytes == 0, "put: the source of ", bytes, " B is a null pointer");
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t width = word_at(target + done, bytes - done);
    std::uint64_t value = 0;
    std::memcpy(&value, static_cast<const std::byte*>(source) + done, width);
    write(to, target + done, value, width, SignalOp::set);
    done += width;
  }
}

void Batch::signal(const Signal& signal) {
  const Remote& word = signal.word;
  const std::uint64_t target = word.window.at(word.rank, word.offset, signal.width);
  check_word("signal", target, signal.width);
  write(word, target, signal.value, signal.width, signal.op);
}

void Batch::atomic(AtomicOp op, const Remote& word, std::size_t width, std::uint64_t value, void* old,
                   std::uint64_t expected) {
  const std::uint64_t target = word.window.at(word.rank, word.offset, width);
  check_word("atomic", target, width);
  require(old != nullptr || op != AtomicOp::compare_swap, "atomic: compare_swap needs a word for the old value");
  if (old != nullptr) {
    check_word("atomic", address_of(old), width);
    one_sided_->check_kernel_access("atomic", old);
  }
  if (op == AtomicOp::compare_swap) add(store_step(address_of(old), expected, width));
  if (asks_proxy(word)) return atomic_by_proxy(op, word, target, width, value, old);
  Step step = store_step(target, value, width);
  step.kind = StepKind::atomic;
  step.compare = static_cast<Compare>(op);
  step.peer = word.rank;
  step.bytes = address_of(old);
  add(step);
}

void Batch::atomic_by_proxy(AtomicOp op, const Remote& word, std::uint64_t target, std::size_t width,
                            std::uint64_t value, void* old) {
  const int peer = word.rank;
  const std::uint64_t data = address_of(one_sided_->proxy().data(peer));
  claim_proxy(peer);
  if (op == AtomicOp::compare_swap) add_copy(data, address_of(old), width, peer, address_of(old));
  ask_proxy(peer, 0, {asked_of(word, ProxyWork::atomic), target, one_sided::packed(op, width), value});
  await_proxy(peer, 0);
  if (old != nullptr) add_copy(address_of(old), data, width, peer, address_of(old));
  release_proxy(peer);
}

void Batch::wait(const void* word, const Until& until) {
  one_sided_->check_kernel_access("wait", word);
  add(wait_step(word, until));
}

void Batch::store(void* word, std::uint64_t value, std::size_t width) {
  check_word("store", address_of(word), width);
  one_sided_->check_kernel_access("store", word);
  add(store_step(address_of(word), value, width));
}

void Batch::copy(void* destination, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  require(destination != nullptr && source != nullptr, "copy: ", bytes, " B from ", source, " to ", destination,
          ": neither may be null");
  const auto local = [&](const void* end) { return one_sided_->copy_kind(end, bytes); };
  Step step;
  step.kind = local(destination) == StepKind::copy ? local(source) : StepKind::engine;
  step.target = address_of(destination);
  step.source = address_of(source);
  step.bytes = bytes;
  add(step);
}

void Batch::append(const Batch& other) {
  for (const Step& step : other.steps()) add(step);
  staged_.insert(staged_.end(), other.staged_.begin(), other.staged_.end());
}

void Batch::clear() {
  few_count_ = 0;
  many_.clear();
  staged_.clear();
}

void Batch::add(const Step& step) {
  if (few_count_ < few_.size()) {
    few_[few_count_++] = step;
    return;
  }
  if (many_.empty()) many_.assign(few_.begin(), few_.end());
  many_.push_back(step);
}

void Batch::add_copy(std::uint64_t target, std::uint64_t source, std::size_t bytes, int peer, std::uint64_t local) {
  Step step;
  step.kind = one_sided_->copy_kind(reinterpret_cast<const void*>(local), bytes);
  step.peer = peer;
  step.target = target;
  step.source = source;
  step.bytes = bytes;
  add(step);
}

void Batch::write(const Remote& to, std::uint64_t target, std::uint64_t value, std::size_t width, SignalOp op) {
  if (asks_proxy(to)) {
    const ProxyWork work = op == SignalOp::add ? ProxyWork::add : ProxyWork::store;
    claim_proxy(to.rank);
    ask_proxy(to.rank, 0, {asked_of(to, work), target, width, value});
    await_proxy(to.rank, 0);
    return release_proxy(to.rank);
  }
  if (to.rank == one_sided_->rank()) one_sided_->check_kernel_access("signal", reinterpret_cast<const void*>(target));
  Step step = store_step(target, value, width);
  if (op == SignalOp::add) step.kind = StepKind::add;
  step.peer = to.rank;
  if (Step* const before = last(); before != nullptr && lie_together(*before, step)) {
    before->kind = StepKind::beside;
    before->bytes = value;
    before->target = target;
    return;
  }
  add(step);
}

Step* Batch::last() {
  if (!many_.empty()) return &many_.back();
  return few_count_ > 0 ? &few_[few_count_ - 1] : nullptr;
}

bool Batch::asks_proxy(const Remote& place) {
  if (place.window.direct(place.rank)) return false;
  const std::uint64_t number = place.window.segment_number();
  if (number != 0 && (staged_.empty() || staged_.back() != number)) staged_.push_back(number);
  return true;
}

std::uint64_t Batch::asked_of(const Remote& place, ProxyWork work) {
  return one_sided::asked(work, place.window.lent_id(place.rank));
}

void Batch::claim_proxy(int peer) {
  one_sided_->proxy().open(peer);
  Step step = store_step(address_of(one_sided_->proxy().lock(peer)), 1, 8);
  step.kind = StepKind::claim;
  step.peer = peer;
  add(step);
}

void Batch::ask_proxy(int peer, std::size_t number, const one_sided::ProxyRequest& request) {
  one_sided::ProxyRequest* slot = one_sided_->proxy().slot(peer, number);
  add(store_step(address_of(&slot->address), request.address, 8));
  add(store_step(address_of(&slot->bytes), request.bytes, 8));
  add(store_step(address_of(&slot->value), request.value, 8));
  add(store_step(address_of(&slot->work), request.work, 8));
  if (std::uint64_t* const asks = one_sided_->proxy().asks(peer)) add(store_step(address_of(asks), 1, 8));
}

void Batch::await_proxy(int peer, std::size_t number) {
  Step done = wait_step(&one_sided_->proxy().slot(peer, number)->work, {Compare::eq, 0, 8, Sign::unsigned_word});
  done.peer = peer;
  add(done);
}

void Batch::release_proxy(int peer) { add(store_step(address_of(one_sided_->proxy().lock(peer)), 0, 8)); }

}  // namespace onstream
