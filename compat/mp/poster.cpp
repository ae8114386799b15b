#include "poster.hpp"

#include <algorithm>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "runtime.hpp"

namespace onstream::mp {

namespace {

// Between the program's blocks and the one buffer that stands for them.
enum class Way { gather, scatter };

void add_blocks(Batch& batch, const Operation& request, Way way) {
  std::byte* staged = request.staged->data();
  for (const Block& block : request.blocks) {
    if (way == Way::gather) {
      batch.copy(staged, block.address, block.bytes);
    } else {
      batch.copy(block.address, staged, block.bytes);
    }
    staged += block.bytes;
  }
}

}  // namespace

Poster::Poster(Runtime& runtime, Stream stream)
    : runtime_(runtime), world_(runtime.world()), stream_(stream), batch_(world_.one_sided()) {}

Poster::~Poster() {
  try {
    give_up();
    finish();
  } catch (const std::exception& error) {
    log(LogLevel::error, "libmp: ", error.what());
    // Nothing tells when these end.
    for (const auto& request : started_) {
      if (!request->is_message()) request->state = State::lost;
    }
  }
}

// Takes back the gathered ops that did not go, the newest first: the order of preparation stays.
void Poster::give_up() {
  batch_.clear();
  sends_.clear();
  awaits_.clear();
  for (; !gathered_.empty(); gathered_.pop_back()) {
    const auto& [request, before] = gathered_.back();
    request->state = before;
    if (before == State::posted) {
      std::erase(awaited_, request);
      request->scattered = false;
    } else {
      std::erase(started_, request);
      if (before == State::prepared) runtime_.put_back(request);
    }
  }
  asked_ = gone_;
}

void Poster::begin(Sort sort) {
  if (sort != sort_) flush();
  sort_ = sort;
}

void Poster::flush() {
  flush_sends();
  flush_awaits();
  if (!batch_.empty()) world_.one_sided().run(batch_, stream_);
  batch_.clear();
  for (const auto& [request, before] : gathered_) {
    if (before != State::posted) runtime_.end_if_nowait(*request);
  }
  gathered_.clear();
  gone_ = asked_;
}

void Poster::flush_sends() {
  if (sends_.empty()) return;
  std::vector<Outgoing> messages;
  for (const auto& request : sends_) messages.push_back({request->buffer(), request->bytes, request->peer, {}});
  const auto posted = world_.isend_all(messages, stream_);
  for (std::size_t i = 0; i < sends_.size(); ++i) {
    const std::lock_guard busy(sends_[i]->busy);
    sends_[i]->message = posted[i];
  }
  sends_.clear();
}

void Poster::flush_awaits() {
  if (awaits_.empty()) return;
  std::vector<std::unique_lock<std::mutex>> busy;
  std::vector<std::shared_ptr<onstream::Request>> messages;
  for (const auto& request : awaits_) {
    busy.emplace_back(request->busy);
    messages.push_back(request->message);
  }
  world_.wait_all(messages, stream_);
  busy.clear();
  for (const auto& request : std::exchange(awaits_, {})) {
    if (request->kind != Kind::recv || request->staged == nullptr) continue;
    add_blocks(batch_, *request, Way::scatter);
    request->scattered = true;
  }
}

void Poster::start(const std::shared_ptr<Operation>& request) {
  if (const auto before = runtime_.pair(request->peer).sends.before(world_.device(), stream_)) {
    flush();
    world_.device().wait(stream_, before);
  }
  if (!request->is_message()) {
    begin(Sort::steps);
    batch_.append(*request->batch);
  } else {
    if (request->staged != nullptr) {
      begin(Sort::steps);
      add_blocks(batch_, *request, Way::gather);
    }
    begin(Sort::sends);
    sends_.push_back(request);
  }
  const State before = request->state;
  if (before == State::prepared) runtime_.take_prepared(request);
  request->state = State::posted;
  gathered_.push_back({request, before});
  started_.push_back(request);
  ++asked_;
}

void Poster::receive(const std::shared_ptr<Operation>& request) {
  // A message may be shorter than its receive: the rest of the buffer keeps its contents.
  if (request->staged != nullptr) add_blocks(batch_, *request, Way::gather);
  flush();
  request->message = world_.irecv(request->buffer(), request->bytes, request->peer, {}, stream_);
  request->state = State::posted;
}

void Poster::await(const std::shared_ptr<Operation>& request) {
  if (request->is_message()) {
    begin(Sort::awaits);
    awaits_.push_back(request);
  } else if (std::ranges::find(started_, request) == started_.end() && request->done != nullptr &&
             !request->done->done()) {
    flush();
    world_.device().wait(stream_, request->done);
  }
  gathered_.push_back({request, State::posted});
  request->state = State::awaited;
  awaited_.push_back(request);
  ++asked_;
}

void Poster::wait_word(const void* word, const Until& until) {
  runtime_.reach_word(word);
  begin(Sort::steps);
  batch_.wait(word, until);
  ++asked_;
}

void Poster::store_word(void* word, std::uint64_t value, std::size_t width) {
  runtime_.reach_word(word);
  begin(Sort::steps);
  batch_.store(word, value, width);
  ++asked_;
}

void Poster::finish() {
  flush();
  if (started_.empty() && awaited_.empty()) return;
  const std::shared_ptr<Event> behind = world_.device().point(stream_);
  for (const std::shared_ptr<Operation>& request : started_) {
    request->captured = behind == nullptr;
    if (!request->is_message()) request->done = behind;
    runtime_.pair(request->peer).sends.leave(stream_, behind);
  }
  for (const std::shared_ptr<Operation>& request : awaited_) request->awaited = behind;
  started_.clear();
  awaited_.clear();
}

}  // namespace onstream::mp
