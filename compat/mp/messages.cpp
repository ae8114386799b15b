// The calls on registered memory: messages, puts and gets in windows, and the waits for them all.
#include <algorithm>

#include "guarded.hpp"
#include "poster.hpp"

using namespace onstream;
using namespace onstream::mp;

namespace {

constexpr int kMostBlocks = 30;

std::vector<Block> one_block(void* buffer, int size) {
  demand(size >= 0, MP_FAILURE, "a size of ", size, " B");
  demand(buffer != nullptr || size == 0, MP_FAILURE, size, " B at a null pointer");
  return {{static_cast<std::byte*>(buffer), static_cast<std::size_t>(size)}};
}

std::vector<Block> blocks_of(const iovec* vector, int count) {
  demand(count > 0 && count <= kMostBlocks, MP_FAILURE, count, " blocks; there may be 1 to ", kMostBlocks);
  demand(vector != nullptr, MP_FAILURE, "the vector of ", count, " blocks is a null pointer");
  std::vector<Block> blocks;
  for (int i = 0; i < count; ++i) {
    demand(vector[i].iov_base != nullptr || vector[i].iov_len == 0, MP_FAILURE, "block ", i, " of ", vector[i].iov_len,
           " B is a null pointer");
    blocks.push_back({static_cast<std::byte*>(vector[i].iov_base), vector[i].iov_len});
  }
  return blocks;
}

void demand_result(const mp_request_t* request) {
  demand(request != nullptr, MP_FAILURE, "there is no place for the request");
}

int post_by_host(Runtime& runtime, const std::shared_ptr<Operation>& request, mp_request_t* out) {
  runtime.post(request);
  *out = runtime.hand_out(request);
  return MP_SUCCESS;
}

enum class Then { go_on, wait };

int post_on_stream(Runtime& runtime, const std::shared_ptr<Operation>& request, mp_request_t* out, CUstream_st* stream,
                   Then then) {
  Poster poster(runtime, runtime.stream_of(stream));
  poster.start(request);
  if (then == Then::wait) poster.await(request);
  poster.finish();
  *out = runtime.hand_out(request);
  return MP_SUCCESS;
}

int prepare(Runtime& runtime, const std::shared_ptr<Operation>& request, mp_request_t* out) {
  *out = runtime.hand_out(request);
  runtime.remember(request);
  return MP_SUCCESS;
}

int post_prepared(Runtime& runtime, std::span<mp_request_t> handles, CUstream_st* stream, Then then) {
  const std::vector<std::shared_ptr<Operation>> requests = runtime.requests_of(handles);
  runtime.demand_prepared(requests);  // all of them, before the first is touched
  Poster poster(runtime, runtime.stream_of(stream));
  for (const std::shared_ptr<Operation>& request : requests) poster.start(request);
  if (then == Then::wait) {
    for (const std::shared_ptr<Operation>& request : requests) poster.await(request);
  }
  poster.finish();
  return MP_SUCCESS;
}

std::span<mp_request_t> handles_of(std::uint32_t count, mp_request_t* requests) {
  demand(count == 0 || requests != nullptr, EINVAL, count, " requests at a null pointer");
  return {requests, count};
}

int wait_on_stream(Runtime& runtime, std::span<mp_request_t> handles, CUstream_st* stream) {
  const std::vector<std::shared_ptr<Operation>> requests = runtime.requests_of(handles);
  for (const std::shared_ptr<Operation>& request : requests) {
    demand(request->state == State::posted, EINVAL, "the request is not posted yet, or a stream waits for it already");
  }
  runtime.demand_same_graph(requests, runtime.stream_of(stream));
  Poster poster(runtime, runtime.stream_of(stream));
  for (const std::shared_ptr<Operation>& request : requests) poster.await(request);
  poster.finish();
  return MP_SUCCESS;
}

}  // namespace

int mp_register(void* addr, size_t length, mp_reg_t* reg) {
  return guarded("mp_register", [&](Runtime& runtime) {
    demand(reg != nullptr, MP_FAILURE, "there is no place for the registration");
    *reg = runtime.register_memory(addr, length);
    return MP_SUCCESS;
  });
}

int mp_deregister(mp_reg_t* reg) {
  return guarded("mp_deregister", [&](Runtime& runtime) {
    demand(reg != nullptr, MP_FAILURE, "the registration is a null pointer");
    runtime.deregister(*reg);
    *reg = nullptr;
    return MP_SUCCESS;
  });
}

int mp_irecv(void* buf, int size, int peer, mp_reg_t* reg, mp_request_t* req) {
  return guarded("mp_irecv", [&](Runtime& runtime) {
    demand_result(req);
    return post_by_host(runtime, runtime.message(Kind::recv, one_block(buf, size), peer, reg), req);
  });
}

int mp_isend(void* buf, int size, int peer, mp_reg_t* reg, mp_request_t* req) {
  return guarded("mp_isend", [&](Runtime& runtime) {
    demand_result(req);
    return post_by_host(runtime, runtime.message(Kind::send, one_block(buf, size), peer, reg), req);
  });
}

int mp_irecvv(iovec* v, int nblocks, int peer, mp_reg_t* reg, mp_request_t* req) {
  return guarded("mp_irecvv", [&](Runtime& runtime) {
    demand_result(req);
    return post_by_host(runtime, runtime.message(Kind::recv, blocks_of(v, nblocks), peer, reg), req);
  });
}

int mp_isendv(iovec* v, int nblocks, int peer, mp_reg_t* reg, mp_request_t* req) {
  return guarded("mp_isendv", [&](Runtime& runtime) {
    demand_result(req);
    return post_by_host(runtime, runtime.message(Kind::send, blocks_of(v, nblocks), peer, reg), req);
  });
}

int mp_isend_on_stream(void* buf, int size, int peer, mp_reg_t* reg, mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_isend_on_stream", [&](Runtime& runtime) {
    demand_result(req);
    const auto request = runtime.message(Kind::send, one_block(buf, size), peer, reg);
    return post_on_stream(runtime, request, req, stream, Then::go_on);
  });
}

int mp_isendv_on_stream(iovec* v, int nblocks, int peer, mp_reg_t* reg, mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_isendv_on_stream", [&](Runtime& runtime) {
    demand_result(req);
    const auto request = runtime.message(Kind::send, blocks_of(v, nblocks), peer, reg);
    return post_on_stream(runtime, request, req, stream, Then::go_on);
  });
}

int mp_send_on_stream(void* buf, int size, int peer, mp_reg_t* reg, mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_send_on_stream", [&](Runtime& runtime) {
    demand_result(req);
    const auto request = runtime.message(Kind::send, one_block(buf, size), peer, reg);
    return post_on_stream(runtime, request, req, stream, Then::wait);
  });
}

int mp_wait(mp_request_t* req) {
  return guarded("mp_wait", [&](Runtime& runtime) {
    runtime.wait(handles_of(1, req));
    return MP_SUCCESS;
  });
}

int mp_wait_all(uint32_t count, mp_request_t* req) {
  return guarded("mp_wait_all", [&](Runtime& runtime) {
    runtime.wait(handles_of(count, req));
    return MP_SUCCESS;
  });
}

int mp_progress_all(uint32_t count, mp_request_t* req) {
  int done = 0;
  guarded("mp_progress_all", [&](Runtime& runtime) {
    done = runtime.count_done(handles_of(count, req));
    return MP_SUCCESS;
  });
  return done;
}

int mp_wait_on_stream(mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_wait_on_stream",
                 [&](Runtime& runtime) { return wait_on_stream(runtime, handles_of(1, req), stream); });
}

int mp_wait_all_on_stream(uint32_t count, mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_wait_all_on_stream",
                 [&](Runtime& runtime) { return wait_on_stream(runtime, handles_of(count, req), stream); });
}

int mp_send_prepare(void* buf, int size, int peer, mp_reg_t* reg, mp_request_t* req) {
  return guarded("mp_send_prepare", [&](Runtime& runtime) {
    demand_result(req);
    return prepare(runtime, runtime.message(Kind::send, one_block(buf, size), peer, reg), req);
  });
}

int mp_sendv_prepare(iovec* v, int nblocks, int peer, mp_reg_t* reg, mp_request_t* req) {
  return guarded("mp_sendv_prepare", [&](Runtime& runtime) {
    demand_result(req);
    return prepare(runtime, runtime.message(Kind::send, blocks_of(v, nblocks), peer, reg), req);
  });
}

int mp_send_post_on_stream(mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_send_post_on_stream",
                 [&](Runtime& runtime) { return post_prepared(runtime, handles_of(1, req), stream, Then::wait); });
}

int mp_isend_post_on_stream(mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_isend_post_on_stream",
                 [&](Runtime& runtime) { return post_prepared(runtime, handles_of(1, req), stream, Then::go_on); });
}

int mp_send_post_all_on_stream(uint32_t count, mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_send_post_all_on_stream",
                 [&](Runtime& runtime) { return post_prepared(runtime, handles_of(count, req), stream, Then::wait); });
}

int mp_isend_post_all_on_stream(uint32_t count, mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_isend_post_all_on_stream",
                 [&](Runtime& runtime) { return post_prepared(runtime, handles_of(count, req), stream, Then::go_on); });
}

int mp_put_prepare(void* src, int size, mp_reg_t* src_reg, int peer, size_t displ, mp_window_t* window,
                   mp_request_t* req, int flags) {
  return guarded("mp_put_prepare", [&](Runtime& runtime) {
    demand_result(req);
    demand(window != nullptr, MP_FAILURE, "the window is a null pointer");
    return prepare(runtime, runtime.put(one_block(src, size)[0], peer, src_reg, displ, *window, flags), req);
  });
}

int mp_iput_post_on_stream(mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_iput_post_on_stream",
                 [&](Runtime& runtime) { return post_prepared(runtime, handles_of(1, req), stream, Then::go_on); });
}

int mp_iput_post_all_on_stream(uint32_t count, mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_iput_post_all_on_stream",
                 [&](Runtime& runtime) { return post_prepared(runtime, handles_of(count, req), stream, Then::go_on); });
}

int mp_window_create(void* addr, size_t size, mp_window_t* window) {
  return guarded("mp_window_create", [&](Runtime& runtime) {
    runtime.create_window(addr, size, window);
    return MP_SUCCESS;
  });
}

int mp_window_destroy(mp_window_t* window) {
  return guarded("mp_window_destroy", [&](Runtime& runtime) {
    demand(window != nullptr, MP_FAILURE, "the window is a null pointer");
    runtime.destroy_window(*window);
    *window = nullptr;
    return MP_SUCCESS;
  });
}

int mp_iput(void* src, int size, mp_reg_t* src_reg, int peer, size_t displ, mp_window_t* window, mp_request_t* req,
            int flags) {
  return guarded("mp_iput", [&](Runtime& runtime) {
    demand_result(req);
    demand(window != nullptr, MP_FAILURE, "the window is a null pointer");
    return post_by_host(runtime, runtime.put(one_block(src, size)[0], peer, src_reg, displ, *window, flags), req);
  });
}

int mp_iget(void* dst, int size, mp_reg_t* dst_reg, int peer, size_t displ, mp_window_t* window, mp_request_t* req) {
  return guarded("mp_iget", [&](Runtime& runtime) {
    demand_result(req);
    demand(window != nullptr, MP_FAILURE, "the window is a null pointer");
    return post_by_host(runtime, runtime.get(one_block(dst, size)[0], peer, dst_reg, displ, *window), req);
  });
}

int mp_iput_on_stream(void* src, int size, mp_reg_t* src_reg, int peer, size_t displ, mp_window_t* window,
                      mp_request_t* req, int flags, CUstream_st* stream) {
  return guarded("mp_iput_on_stream", [&](Runtime& runtime) {
    demand_result(req);
    demand(window != nullptr, MP_FAILURE, "the window is a null pointer");
    const auto request = runtime.put(one_block(src, size)[0], peer, src_reg, displ, *window, flags);
    return post_on_stream(runtime, request, req, stream, Then::go_on);
  });
}

int mp_iget_on_stream(void* dst, int size, mp_reg_t* dst_reg, int peer, size_t displ, mp_window_t* window,
                      mp_request_t* req, CUstream_st* stream) {
  return guarded("mp_iget_on_stream", [&](Runtime& runtime) {
    demand_result(req);
    demand(window != nullptr, MP_FAILURE, "the window is a null pointer");
    const auto request = runtime.get(one_block(dst, size)[0], peer, dst_reg, displ, *window);
    return post_on_stream(runtime, request, req, stream, Then::go_on);
  });
}
