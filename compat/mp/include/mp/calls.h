/* libmp's calls, over onstream: everything of mp.h that needs neither MPI nor CUDA headers.
 *
 * Programs include mp.h. The names, arguments and return codes are libmp's; what each call promises is said here, where
 * it goes beyond the name, and in docs/libmp.md. A call returns MP_SUCCESS, or MP_FAILURE, or EINVAL where libmp did;
 * on failure it says why on standard error, and changes nothing. Where a call posts several ops and fails at one, what
 * the stream has got by then stays posted; all else stays prepared, or in its queue, and can be posted again. Calls are
 * made from one thread at a time.
 */
#ifndef ONSTREAM_MP_CALLS_H
#define ONSTREAM_MP_CALLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MP_SUCCESS 0
#define MP_FAILURE 1

#define MP_API_MAJOR_VERSION 2
#define MP_API_MINOR_VERSION 0
#define MP_API_VERSION ((MP_API_MAJOR_VERSION << 16) | MP_API_MINOR_VERSION)
/* A program built for version v runs with this library. */
#define MP_API_VERSION_COMPATIBLE(v) \
  ((((unsigned)(v) >> 16) == MP_API_MAJOR_VERSION) && ((int)((unsigned)(v) & 0xffffU) >= MP_API_MINOR_VERSION))

/* Handles. A stale one (waited for already, freed, of before mp_finalize) is noticed, never followed. */
typedef struct mp_reg* mp_reg_t;
typedef struct mp_request* mp_request_t;
typedef struct mp_window* mp_window_t;
typedef struct mp_desc_queue* mp_desc_queue_t;

/* A CUDA stream, or what stands in for one; the same type as cudaStream_t. */
struct CUstream_st;

typedef enum mp_param { MP_PARAM_VERSION, MP_NUM_PARAMS } mp_param_t;

/* Where libmp kept its queues. Accepted, and without meaning here. */
enum mp_init_flags {
  MP_INIT_DEFAULT = 0,
  MP_INIT_WQ_ON_GPU,
  MP_INIT_RX_CQ_ON_GPU,
  MP_INIT_TX_CQ_ON_GPU,
  MP_INIT_DBREC_ON_GPU
};

enum mp_put_flags {
  MP_PUT_INLINE = 1 << 0, /* the bytes, 64 at most, are taken during the call */
  MP_PUT_NOWAIT = 1 << 1  /* the request cannot be waited for; ordered before later sends to that peer */
};

enum mp_wait_flags {
  MP_WAIT_GEQ = 0, /* (int32_t)(*ptr - value) >= 0 */
  MP_WAIT_EQ,      /* *ptr == value */
  MP_WAIT_AND      /* (*ptr & value) != 0 */
};

int mp_query_param(mp_param_t param, int* value);
void mp_finalize(void); /* collective */

/* --- memory: device, pinned or plain. Buffers of calls below lie within their registration. --- */
int mp_register(void* addr, size_t length, mp_reg_t* reg);
int mp_deregister(mp_reg_t* reg);

/* --- messages. Between two ranks they match in order; a send may come before its receive. --- */
int mp_irecv(void* buf, int size, int peer, mp_reg_t* reg, mp_request_t* req);
int mp_isend(void* buf, int size, int peer, mp_reg_t* reg, mp_request_t* req);
int mp_irecvv(struct iovec* v, int nblocks, int peer, mp_reg_t* reg, mp_request_t* req);
int mp_isendv(struct iovec* v, int nblocks, int peer, mp_reg_t* reg, mp_request_t* req);
int mp_isend_on_stream(void* buf, int size, int peer, mp_reg_t* reg, mp_request_t* req, struct CUstream_st* stream);
int mp_isendv_on_stream(struct iovec* v, int nblocks, int peer, mp_reg_t* reg, mp_request_t* req,
                        struct CUstream_st* stream);
/* As mp_isend_on_stream, and the stream waits for the send's completion. */
int mp_send_on_stream(void* buf, int size, int peer, mp_reg_t* reg, mp_request_t* req, struct CUstream_st* stream);

/* --- completion. The host's waits release the requests: also that a stream waited for, and that failed. --- */
int mp_wait(mp_request_t* req);
int mp_wait_all(uint32_t count, mp_request_t* req);
/* Returns how many of the requests are complete; releases none. */
int mp_progress_all(uint32_t count, mp_request_t* req);
/* Once a request. A stream that is being captured: only for what was posted in the capture, which no receive is. */
int mp_wait_on_stream(mp_request_t* req, struct CUstream_st* stream);
int mp_wait_all_on_stream(uint32_t count, mp_request_t* req, struct CUstream_st* stream);

/* --- prepared first, posted later: in the order of preparation, one peer's ops --- */
int mp_send_prepare(void* buf, int size, int peer, mp_reg_t* reg, mp_request_t* req);
int mp_sendv_prepare(struct iovec* v, int nblocks, int peer, mp_reg_t* reg, mp_request_t* req);
int mp_send_post_on_stream(mp_request_t* req, struct CUstream_st* stream);
int mp_isend_post_on_stream(mp_request_t* req, struct CUstream_st* stream);
int mp_send_post_all_on_stream(uint32_t count, mp_request_t* req, struct CUstream_st* stream);
int mp_isend_post_all_on_stream(uint32_t count, mp_request_t* req, struct CUstream_st* stream);

/* --- windows: one piece of memory of every rank, sizes may differ. Creation is collective, and its failure too. --- */
int mp_window_create(void* addr, size_t size, mp_window_t* window);
int mp_window_destroy(mp_window_t* window);
int mp_iput(void* src, int size, mp_reg_t* src_reg, int peer, size_t displ, mp_window_t* window, mp_request_t* req,
            int flags);
int mp_iget(void* dst, int size, mp_reg_t* dst_reg, int peer, size_t displ, mp_window_t* window, mp_request_t* req);
int mp_iput_on_stream(void* src, int size, mp_reg_t* src_reg, int peer, size_t displ, mp_window_t* window,
                      mp_request_t* req, int flags, struct CUstream_st* stream);
int mp_iget_on_stream(void* dst, int size, mp_reg_t* dst_reg, int peer, size_t displ, mp_window_t* window,
                      mp_request_t* req, struct CUstream_st* stream);
int mp_put_prepare(void* src, int size, mp_reg_t* src_reg, int peer, size_t displ, mp_window_t* window,
                   mp_request_t* req, int flags);
int mp_iput_post_on_stream(mp_request_t* req, struct CUstream_st* stream);
int mp_iput_post_all_on_stream(uint32_t count, mp_request_t* req, struct CUstream_st* stream);

/* --- words --- */
int mp_wait32(uint32_t* ptr, uint32_t value, int flags);
int mp_wait32_on_stream(uint32_t* ptr, uint32_t value, int flags, struct CUstream_st* stream);
static inline int mp_wait_dword_geq_on_stream(uint32_t* ptr, uint32_t value, struct CUstream_st* stream) {
  return mp_wait32_on_stream(ptr, value, MP_WAIT_GEQ, stream);
}
static inline int mp_wait_dword_eq_on_stream(uint32_t* ptr, uint32_t value, struct CUstream_st* stream) {
  return mp_wait32_on_stream(ptr, value, MP_WAIT_EQ, stream);
}

/* --- descriptor queues: ops gathered, then posted together and in order --- */
int mp_desc_queue_alloc(mp_desc_queue_t* dq);
int mp_desc_queue_free(mp_desc_queue_t* dq);
int mp_desc_queue_add_send(mp_desc_queue_t* dq, mp_request_t* req); /* a prepared send or put */
int mp_desc_queue_add_wait_send(mp_desc_queue_t* dq, mp_request_t* req);
int mp_desc_queue_add_wait_recv(mp_desc_queue_t* dq, mp_request_t* req);
int mp_desc_queue_add_wait_value32(mp_desc_queue_t* dq, uint32_t* ptr, uint32_t value, int flags);
int mp_desc_queue_add_write_value32(mp_desc_queue_t* dq, uint32_t* ptr, uint32_t value);
int mp_desc_queue_post_on_stream(struct CUstream_st* stream, mp_desc_queue_t* dq, int flags);

/* --- what mp_init is made of; programs call mp_init --- */
enum { ONSTREAM_MP_TEXT = 256 };

struct onstream_mp_start {
  int rank;
  int size;
  int local_rank; /* among the ranks of this host */
  int local_size;
  int device; /* CUDA ordinal */
  const int* peers;
  int peer_count;
  const char* meeting; /* what rank 0's onstream_mp_meeting wrote */
};

/* The host that this process runs on: equal texts, equal hosts. */
void onstream_mp_host(char text[ONSTREAM_MP_TEXT]);
/* Why this rank cannot start, "" if it can; and another rank's reason, to standard error. */
void onstream_mp_refusal(const struct onstream_mp_start* start, char text[ONSTREAM_MP_TEXT]);
void onstream_mp_refused(int rank, const char* text);
/* Where the ranks of a new job may meet. `one_host`: not 0 if all run on the caller's. */
void onstream_mp_meeting(char text[ONSTREAM_MP_TEXT], int one_host);
int onstream_mp_begin(const struct onstream_mp_start* start);

#ifdef __cplusplus
}
#endif
#endif
