// Descriptors, with which kernels of the program start and await communication.
//
// A descriptor is a doorbell. The op itself is enqueued here, on a stream of the library's own, behind a wait for that
// doorbell; so no CPU takes part when the kernel rings it.
#include "mp/descriptors.h"

#include "guarded.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "poster.hpp"

using namespace onstream;
using namespace onstream::mp;

namespace mp::mlx5 {

int get_descriptors(isem32_t* semaphore, uint32_t* word, uint32_t value) {
  return guarded("get_descriptors", [&](Runtime& runtime) {
    demand(semaphore != nullptr && word != nullptr, MP_FAILURE, "a null pointer");
    runtime.reach_word(word);
    *semaphore = {word, value};
    return MP_SUCCESS;
  });
}

int get_descriptors(send_desc_t* send, mp_request_t* req) {
  return guarded("get_descriptors", [&](Runtime& runtime) {
    demand(send != nullptr, MP_FAILURE, "a null pointer");
    const std::shared_ptr<Operation> request = runtime.request_of(req);
    runtime.demand_prepared({&request, 1});
    const auto hold = DeferredRelease::hold();  // the program may have to launch the kernel that rings
    request->words = runtime.words()->take();
    const Stream stream = runtime.pair(request->peer).sending.get(runtime.world().device());
    const auto keep = [&] { runtime.progress().keep({hold, request->words}, runtime.world().device().record(stream)); };
    try {
      Poster poster(runtime, stream);
      poster.wait_word(&request->words->doorbell, {Compare::eq, 1, 8, Sign::unsigned_word});
      poster.start(request);
      poster.finish();
    } catch (...) {
      // The stream may wait for the doorbell, which nobody has got. Pairs with that wait.
      std::atomic_ref(request->words->doorbell).store(1, std::memory_order_release);
      keep();
      throw;
    }
    keep();
    *send = {{&request->words->record, 1}, {&request->words->doorbell, 1}};
    return MP_SUCCESS;
  });
}

int get_descriptors(wait_desc_t* wait, mp_request_t* req) {
  return guarded("get_descriptors", [&](Runtime& runtime) {
    demand(wait != nullptr, MP_FAILURE, "a null pointer");
    const std::shared_ptr<Operation> request = runtime.request_of(req);
    demand(request->state == State::posted, MP_FAILURE,
           "the request is not posted yet, or a stream or kernel waits for it already");
    Pair& pair = runtime.pair(request->peer);
    OwnStream& line = request->kind == Kind::recv ? pair.arriving : pair.sending;
    const Stream stream = line.get(runtime.world().device());
    runtime.demand_same_graph({&request, 1}, stream);
    if (request->words == nullptr) request->words = runtime.words()->take();
    const auto hold = DeferredRelease::hold();  // the peer may wait, before it sends, for a kernel launched after this
    Poster poster(runtime, stream);
    poster.await(request);
    poster.store_word(&request->words->done, 1, sizeof request->words->done);
    poster.finish();
    request->words->asked = 1;
    runtime.progress().keep({hold, request->words}, runtime.world().device().record(stream));
    *wait = {gdsync::WAIT_EQ, {&request->words->done, 1}, {&request->words->seen, 1}};
    return MP_SUCCESS;
  });
}

}  // namespace mp::mlx5
