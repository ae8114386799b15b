// Waits for words, and descriptor queues.
#include <set>

#include "guarded.hpp"
#include "poster.hpp"

using namespace onstream;
using namespace onstream::mp;

namespace {

Compare compare_of(int flags) {
  switch (flags) {
    case MP_WAIT_GEQ: return Compare::reached;
    case MP_WAIT_EQ: return Compare::eq;
    case MP_WAIT_AND: return Compare::any_bit;
    default: throw Refusal(EINVAL, concat("flags ", flags, " are none of MP_WAIT_GEQ, MP_WAIT_EQ and MP_WAIT_AND"));
  }
}

Until until(std::uint32_t value, Compare compare) {
  return {compare, value, sizeof(std::uint32_t), Sign::unsigned_word};
}

void demand_word(const std::uint32_t* word) {
  demand(word != nullptr, EINVAL, "the word is a null pointer");
  demand(reinterpret_cast<std::uintptr_t>(word) % sizeof *word == 0, EINVAL, "the word at ", word,
         " is not aligned to its 4 bytes");
}

enum class Side { sender, receiver };

// Notes the wait for a request that is posted, or queued before it. One queue holds it, and once.
int add_wait(Runtime& runtime, mp_desc_queue_t* dq, mp_request_t* req, Side side) {
  const std::shared_ptr<Queue> queue = runtime.queue_of(dq);
  const std::shared_ptr<Operation> request = runtime.request_of(req);
  demand(request->is_sent() == (side == Side::sender), EINVAL, "the request is a ",
         request->is_sent() ? "send" : "receive");
  demand(request->state == State::posted || request->state == State::queued, EINVAL,
         "the request is not posted or queued, or a stream waits for it already");
  demand(!request->in_queue, EINVAL, "a descriptor queue holds a wait for the request already");
  request->in_queue = true;
  queue->entries.push_back({Entry::What::await, request, nullptr, 0, Compare::reached});
  return MP_SUCCESS;
}

// Throws unless every request that is waited for is posted by then, and where this stream can wait for it.
void demand_posted(const Runtime& runtime, const std::deque<Entry>& entries, Stream stream) {
  std::vector<std::shared_ptr<Operation>> posted_before;
  std::set<const Operation*> started;
  for (const Entry& entry : entries) {
    if (entry.what == Entry::What::start) started.insert(entry.request.get());
    if (entry.what != Entry::What::await || started.contains(entry.request.get())) continue;
    demand(entry.request->state != State::queued, EINVAL, "the queue waits for a request before it is posted");
    demand(entry.request->state == State::posted, EINVAL,
           "the queue waits for a request that a stream waits for already");
    posted_before.push_back(entry.request);
  }
  runtime.demand_same_graph(posted_before, stream);
}

void post(Poster& poster, const Entry& entry) {
  switch (entry.what) {
    case Entry::What::start: return poster.start(entry.request);
    case Entry::What::await: return poster.await(entry.request);
    case Entry::What::wait_word: return poster.wait_word(entry.word, until(entry.value, entry.compare));
    case Entry::What::store_word: return poster.store_word(entry.word, entry.value, sizeof entry.value);
  }
}

// The first `count` of the entries leave the queue.
void drop(Queue& queue, std::size_t count) {
  for (; count > 0; --count) {
    const Entry& entry = queue.entries.front();
    if (entry.what == Entry::What::await) entry.request->in_queue = false;
    queue.entries.pop_front();
  }
}

}  // namespace

int mp_wait32(uint32_t* ptr, uint32_t value, int flags) {
  return guarded("mp_wait32", [&](Runtime& runtime) {
    demand_word(ptr);
    const Status status = runtime.world().one_sided().wait(ptr, until(value, compare_of(flags)));
    demand(status == Status::ok, MP_FAILURE, "the wait for the word at ", ptr, " ended with ", name_of(status));
    return MP_SUCCESS;
  });
}

int mp_wait32_on_stream(uint32_t* ptr, uint32_t value, int flags, CUstream_st* stream) {
  return guarded("mp_wait32_on_stream", [&](Runtime& runtime) {
    demand_word(ptr);
    Poster poster(runtime, runtime.stream_of(stream));
    poster.wait_word(ptr, until(value, compare_of(flags)));
    poster.finish();
    return MP_SUCCESS;
  });
}

int mp_desc_queue_alloc(mp_desc_queue_t* dq) {
  return guarded("mp_desc_queue_alloc", [&](Runtime& runtime) {
    demand(dq != nullptr, MP_FAILURE, "there is no place for the queue");
    *dq = runtime.add_queue();
    return MP_SUCCESS;
  });
}

int mp_desc_queue_free(mp_desc_queue_t* dq) {
  return guarded("mp_desc_queue_free", [&](Runtime& runtime) {
    const std::shared_ptr<Queue> queue = runtime.queue_of(dq);
    const std::size_t left = queue->entries.size();
    drop(*queue, left);
    if (left > 0) log(LogLevel::warn, "mp_desc_queue_free: the queue holds ", left, " ops that were never posted");
    runtime.remove_queue(*dq);
    *dq = nullptr;
    return MP_SUCCESS;
  });
}

int mp_desc_queue_add_send(mp_desc_queue_t* dq, mp_request_t* req) {
  return guarded("mp_desc_queue_add_send", [&](Runtime& runtime) {
    const std::shared_ptr<Queue> queue = runtime.queue_of(dq);
    const std::shared_ptr<Operation> request = runtime.request_of(req);
    runtime.take_prepared(request);
    runtime.end_if_nowait(*request);
    queue->entries.push_back({Entry::What::start, request, nullptr, 0, Compare::reached});
    return MP_SUCCESS;
  });
}

int mp_desc_queue_add_wait_send(mp_desc_queue_t* dq, mp_request_t* req) {
  return guarded("mp_desc_queue_add_wait_send",
                 [&](Runtime& runtime) { return add_wait(runtime, dq, req, Side::sender); });
}

int mp_desc_queue_add_wait_recv(mp_desc_queue_t* dq, mp_request_t* req) {
  return guarded("mp_desc_queue_add_wait_recv",
                 [&](Runtime& runtime) { return add_wait(runtime, dq, req, Side::receiver); });
}

int mp_desc_queue_add_wait_value32(mp_desc_queue_t* dq, uint32_t* ptr, uint32_t value, int flags) {
  return guarded("mp_desc_queue_add_wait_value32", [&](Runtime& runtime) {
    demand_word(ptr);
    runtime.queue_of(dq)->entries.push_back({Entry::What::wait_word, nullptr, ptr, value, compare_of(flags)});
    return MP_SUCCESS;
  });
}

int mp_desc_queue_add_write_value32(mp_desc_queue_t* dq, uint32_t* ptr, uint32_t value) {
  return guarded("mp_desc_queue_add_write_value32", [&](Runtime& runtime) {
    demand_word(ptr);
    runtime.queue_of(dq)->entries.push_back({Entry::What::store_word, nullptr, ptr, value, Compare::reached});
    return MP_SUCCESS;
  });
}

int mp_desc_queue_post_on_stream(CUstream_st* stream, mp_desc_queue_t* dq, int /*flags*/) {
  return guarded("mp_desc_queue_post_on_stream", [&](Runtime& runtime) {
    const std::shared_ptr<Queue> queue = runtime.queue_of(dq);
    demand_posted(runtime, queue->entries, runtime.stream_of(stream));
    Poster poster(runtime, runtime.stream_of(stream));
    try {
      for (const Entry& entry : queue->entries) post(poster, entry);
      poster.finish();
    } catch (...) {
      drop(*queue, poster.gone());  // the rest stays
      throw;
    }
    drop(*queue, queue->entries.size());
    return MP_SUCCESS;
  });
}
