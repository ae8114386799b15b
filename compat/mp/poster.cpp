#include "poster.hpp"

#include <algorithm>

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
    batch_.clear();
    finish();
  } catch (const std::exception& error) {
    log(LogLevel::error, "libmp: ", error.what());
  }
}

void Poster::flush() {
  if (batch_.empty()) return;
  world_.one_sided().run(batch_, stream_);
  batch_.clear();
}

void Poster::start(const std::shared_ptr<Operation>& request) {
  if (const auto before = runtime_.pair(request->peer).sends.before(world_.device(), stream_)) {
    flush();
    world_.device().wait(stream_, before);
  }
  const std::lock_guard busy(request->busy);
  if (request->is_message()) {
    if (request->staged != nullptr) add_blocks(batch_, *request, Way::gather);
    flush();
    request->message = world_.isend(request->buffer(), request->bytes, request->peer, {}, stream_);
  } else {
    batch_.append(*request->batch);
  }
  request->state = State::posted;
  started_.push_back(request);
}

void Poster::receive(const std::shared_ptr<Operation>& request) {
  // A message may be shorter than its receive: what it does not fill keeps what was there.
  if (request->staged != nullptr) add_blocks(batch_, *request, Way::gather);
  flush();
  request->message = world_.irecv(request->buffer(), request->bytes, request->peer, {}, stream_);
  request->state = State::posted;
}

void Poster::await(const std::shared_ptr<Operation>& request) {
  const std::lock_guard busy(request->busy);
  if (request->is_message()) {
    flush();
    world_.wait(request->message, stream_);
    if (request->kind == Kind::recv && request->staged != nullptr) {
      add_blocks(batch_, *request, Way::scatter);
      request->scattered = true;
    }
  } else if (std::ranges::find(started_, request) == started_.end() && request->done != nullptr &&
             !request->done->done()) {
    flush();
    world_.device().wait(stream_, request->done);
  }
  request->state = State::awaited;
  awaited_.push_back(request);
}

void Poster::wait_word(const void* word, const Until& until) {
  runtime_.reach_word(word);
  batch_.wait(word, until);
}

void Poster::store_word(void* word, std::uint64_t value, std::size_t width) {
  runtime_.reach_word(word);
  batch_.store(word, value, width);
}

void Poster::finish() {
  flush();
  if (started_.empty() && awaited_.empty()) return;
  const bool captured = world_.device().capturing(stream_);
  const std::shared_ptr<Event> behind = captured ? nullptr : world_.device().record(stream_);
  for (const std::shared_ptr<Operation>& request : started_) {
    if (!request->is_message()) request->done = behind;
    runtime_.pair(request->peer).sends.leave(stream_, behind);
  }
  for (const std::shared_ptr<Operation>& request : awaited_) request->awaited = behind;
  started_.clear();
  awaited_.clear();
}

}  // namespace onstream::mp
