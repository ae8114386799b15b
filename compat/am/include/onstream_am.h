/* Registered buffers over a 3-D torus of ranks, with the names of APEnet+'s RDMA interface.
 *
 * A rank opens a link, registers memory, and tells others the virtual addresses, as plain 64-bit numbers. am_put writes
 * to such an address and am_get reads from it, at any time, without the owner's doing; am_send fills the buffer that
 * the owner posted first. What has happened is told by events, in order for each source: am_wait_event. The payload is
 * there before the event that tells of it.
 *
 * Calls return APELINK_SUCCESS, APELINK_WOULDBLOCK (nothing was done, try again), or a negative code; then nothing was
 * written, and ape_last_error() has the whole story. All calls may be made by several threads at once. Nothing waits
 * longer than the deadline (parameter timeout_s). docs/registered_buffers.md is the user's page. */
#ifndef ONSTREAM_AM_H
#define ONSTREAM_AM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- codes --- */
enum {
  APELINK_SUCCESS = 0,
  APELINK_NOERROR = 0,
  APELINK_WOULDBLOCK = 1,
  APELINK_EINVAL = -1,    /* arguments that cannot work */
  APELINK_ECLOSED = -2,   /* the link is closed, or the peer has closed its links */
  APELINK_EADDRESS = -3,  /* no such node in the torus */
  APELINK_EPORT = -4,     /* no such port, or nobody has opened it */
  APELINK_EFAULT = -5,    /* the address is not registered, or its memory was freed */
  APELINK_ERANGE = -6,    /* the message ends past the registered buffer */
  APELINK_EALIGN = -7,    /* an address or a length is not a multiple of 16 */
  APELINK_ETOOLARGE = -8, /* more than AM_MAX_MSG_SIZE, or than the streaming buffer that is next */
  APELINK_EDEAD = -9,     /* a rank has died or failed: no message of this job is sent any more */
  APELINK_ETIMEOUT = -10, /* the deadline passed */
  APELINK_EQUEUE = -11,   /* this link's own completions fill its queue: take events first */
  APELINK_EBUSY = -12,    /* a message is using the buffer */
  APELINK_ENOSPACE = -13, /* no port, no memory, or no row for one more buffer */
  APELINK_ESYSTEM = -14   /* the system or the device refused */
};
/* A few words for a code, never null. */
const char* ape_error_string(int code);
/* What the last call of this thread that failed had to say, with its values; "" if none has failed. */
const char* ape_last_error(void);

/* --- links --- */
#define AM_NPORTS 4 /* ports of a rank: links that it may have open at once */
#define AM_MAX_MSG_SIZE ((size_t)1 << 30)

typedef struct onstream_apelink* apelink_t;
typedef uint32_t am_portid_t; /* 0 to AM_NPORTS - 1 */
typedef uint64_t am_vaddr_t;  /* an address in its owner's address space */
typedef uint64_t am_context_t;

/* A node of the torus, equal where u is equal. Ranks follow x first, then y, then z. */
typedef union {
  uint32_t u;
  struct {
    uint32_t x : 11;
    uint32_t y : 11;
    uint32_t z : 10;
  } s;
} ape_net_address_t;

/* Opens a link, and tells its port: the lowest that is free. The first link of a process is opened by all ranks
 * together, which takes port 0 everywhere; later ones by one rank alone. `dev` is 0. Null on failure. */
apelink_t ape_open(int dev, am_portid_t* port);
/* Ends the link: its messages are finished, its buffers are unregistered, its events are dropped. Not collective. The
 * process's last one also frees all memory of ape_alloc. */
int ape_close(apelink_t link);
int ape_get_topology(apelink_t link, unsigned* nx, unsigned* ny, unsigned* nz);
ape_net_address_t ape_get_self_address(apelink_t link); /* all bits set for a link that is closed */

/* --- memory --- */
enum { APE_DEVICE_MEMORY = 0, APE_HOST_MEMORY = 1 };
/* Zeroed memory that peers reach directly: of the device, or of the host and pinned. Any other memory may be registered
 * too. It lives until ape_free, or until the process has no link open any more. Null on failure. */
void* ape_alloc(apelink_t link, size_t bytes, int where);
int ape_free(apelink_t link, void* memory);

/* AM_PERSISTENT_BUF: target of puts and gets until it is unregistered. AM_STREAMING_BUF: filled once, by an am_send to
 * this link's port, in the order of the calls; its receive event ends the registration. */
enum { AM_PERSISTENT_BUF = 1, AM_STREAMING_BUF = 2 };
int am_register_buf(apelink_t link, am_vaddr_t* vaddr, void* buf, size_t size, am_context_t context, int type);
/* When it returns success no message touches the buffer any more. Same arguments as at the registration. After
 * APELINK_EBUSY of a persistent buffer no new message comes to it: call again. */
int am_unregister_buf(apelink_t link, am_vaddr_t vaddr, void* buf, size_t size, int type);

/* --- messages --- */
/* AM_BLOCKING: waits for room in queues, and for the payload to be there. AM_NONBLOCKING: APELINK_WOULDBLOCK where the
 * former would wait for room; `buf` must stay as it is until the completion's event. */
enum { AM_BLOCKING = 0, AM_NONBLOCKING = 1 };
/* Writes to `remote`, within a persistent buffer of the node: a receive event with `data` there, on that port, and a
 * sent event here. `len` and `remote` are multiples of 16. */
int am_put(apelink_t link, ape_net_address_t dst, am_portid_t port, int data, int flags, am_context_t context,
           const void* buf, size_t len, am_vaddr_t remote);
/* Reads from `remote`, within a persistent buffer of the node: an AM_TYPE_GET event here, none there. */
int am_get(apelink_t link, ape_net_address_t src, int flags, am_context_t context, void* buf, size_t len,
           am_vaddr_t remote);
/* Fills the first streaming buffer of that port, of which it may use a part: events as am_put's. */
int am_send(apelink_t link, ape_net_address_t dst, am_portid_t port, int data, int flags, am_context_t context,
            const void* buf, size_t len);

/* --- events --- */
typedef enum { AM_TYPE_NONE = 0, AM_TYPE_RECV = 1, AM_TYPE_SENT = 2, AM_TYPE_GET = 3 } am_type_t;

/* When the steps of a message were done, in nanoseconds of CLOCK_MONOTONIC; 0: not known. Parameter am_stamps. */
typedef struct {
  uint64_t entered; /* the call that sent it began */
  uint64_t copied;  /* the payload was there; not known of copies that a GPU makes */
  uint64_t posted;  /* the event was written; likewise */
  uint64_t seen;    /* am_wait_event took it */
} am_times_t;

typedef struct {
  am_type_t ev_type;
  union {
    struct {
      int data;
      ape_net_address_t src_addr;
      am_portid_t src_port;
      am_vaddr_t vaddr; /* where the message begins */
      void* buf;        /* the registered buffer that it is in */
      size_t buflen;
      size_t len;           /* of the message */
      am_context_t context; /* of the registration */
    } ev_recv;
    struct {
      int data;
      ape_net_address_t dst_addr;
      am_portid_t dst_port;
      size_t len;
      am_vaddr_t rem_vaddr; /* where the message began there */
      am_context_t context; /* of the am_put or am_send */
    } ev_sent;
    struct {
      ape_net_address_t src_addr;
      void* buf;
      size_t len;
      am_vaddr_t rem_vaddr;
      am_context_t context; /* of the am_get */
    } ev_get;
  } ev;
  am_times_t times;
} am_event_t;

/* The next event of the link. `timeout` in ms; 0 looks once; negative waits until the deadline, and passing it is
 * APELINK_ETIMEOUT. With a timeout, none in time is APELINK_WOULDBLOCK. Ends as soon as a rank fails. */
int am_wait_event(apelink_t link, am_event_t* event, int timeout);

#ifdef __cplusplus
}
#endif

#endif
