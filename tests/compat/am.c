/* Registered buffers: every call, over any number of ranks.
 *
 *   onstream run -n N am            runs all cases that any number of ranks can
 *   onstream run -n N am CASE       runs one of the others
 *
 * The queues have 16 events here (ONSTREAM_AM_EVENTS). A check that fails ends the program with status 1. */
#define _GNU_SOURCE
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "am_common.h"

#define CHECK(condition)                                                                               \
  do {                                                                                                 \
    if (!(condition)) {                                                                                \
      fprintf(stderr, "rank %d: %s:%d: %s does not hold (%s)\n", rank, __FILE__, __LINE__, #condition, \
              ape_last_error());                                                                       \
      exit(1);                                                                                         \
    }                                                                                                  \
  } while (0)

/* The call gives this code, and the story has this in it. */
#define REFUSED(call, code, words)                                                                            \
  do {                                                                                                        \
    const int got = (call);                                                                                   \
    if (got != (code) || strstr(ape_last_error(), words) == NULL) {                                           \
      fprintf(stderr, "rank %d: %s:%d: %s gave %d, not %d: %s\n", rank, __FILE__, __LINE__, #call, got, code, \
              ape_last_error());                                                                              \
      exit(1);                                                                                                \
    }                                                                                                         \
  } while (0)

enum { QUEUE = 16, LARGE = 1 << 20 };

static int right(void) { return (rank + 1) % size; }
static int left(void) { return (rank + size - 1) % size; }

static am_event_t next(void) {
  am_event_t event;
  must(am_wait_event(link_, &event, -1), "am_wait_event");
  return event;
}

static am_event_t next_of(am_type_t type) {
  const am_event_t event = next();
  CHECK(event.ev_type == type);
  return event;
}

static void nothing_is_left(void) {
  am_event_t event;
  CHECK(am_wait_event(link_, &event, 0) == APELINK_WOULDBLOCK);
}

static am_vaddr_t known(void* buffer, size_t bytes, int type) {
  am_vaddr_t address = 0;
  must(am_register_buf(link_, &address, buffer, bytes, (am_context_t)rank + 7, type), "am_register_buf");
  CHECK(address == (am_vaddr_t)(uintptr_t)buffer);
  return address;
}

static void forget(void* buffer, size_t bytes, int type) {
  must(am_unregister_buf(link_, (am_vaddr_t)(uintptr_t)buffer, buffer, bytes, type), "am_unregister_buf");
}

static void release(const char* kind, void* memory) {
  if (strcmp(kind, "plain") == 0) {
    free(memory);
  } else {
    must(ape_free(link_, memory), "ape_free");
  }
}

static unsigned char byte_of(int owner, size_t place) { return (unsigned char)(owner * 37 + (int)(place * 11) + 5); }

static void paint(unsigned char* buffer, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) buffer[i] = byte_of(rank, i);
}

static int painted_by(int owner, const unsigned char* buffer, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (buffer[i] != byte_of(owner, i)) return 0;
  }
  return 1;
}

/* --- cases of any number of ranks: all links are open, no event is under way --- */

/* Memory that the CPU paints and compares; a GPU's is not for it. */
static const char* kinds[] = {"device", "host", "plain"};
static void choose_kinds(void) {
  const char* const device = getenv("ONSTREAM_DEVICE");
  if (device == NULL || strcmp(device, "host") != 0) kinds[0] = "host";
}

static void a_put_is_there_before_its_event(void) {
  static const size_t lengths[] = {0, 16, 48, 4096, LARGE};
  am_vaddr_t all[MOST_RANKS];
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
    unsigned char* const target = memory_of(kinds[k], LARGE);
    unsigned char* const source = memory_of(kinds[(k + 1) % 3], LARGE);
    const am_vaddr_t mine = known(target, LARGE, AM_PERSISTENT_BUF);
    tell_all(&mine, 1, all);
    paint(source, LARGE);
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; ++n) {
      const size_t offset = n % 2 * 16 * (lengths[n] < LARGE);
      memset(target, 0, LARGE);
      barrier();
      must(am_put(link_, node_of(right()), port, -(int)n, n % 2 ? AM_NONBLOCKING : AM_BLOCKING, 99, source, lengths[n],
                  all[right()] + offset),
           "am_put");
      int sent = 0, received = 0;
      while (!sent || !received) {
        const am_event_t event = next();
        if (event.ev_type == AM_TYPE_SENT) {
          CHECK(event.ev.ev_sent.data == -(int)n && event.ev.ev_sent.len == lengths[n]);
          CHECK(event.ev.ev_sent.dst_addr.u == node_of(right()).u && event.ev.ev_sent.dst_port == port);
          CHECK(event.ev.ev_sent.rem_vaddr == all[right()] + offset && event.ev.ev_sent.context == 99);
          ++sent;
        } else {
          CHECK(event.ev_type == AM_TYPE_RECV && painted_by(left(), target + offset, lengths[n]));
          CHECK(event.ev.ev_recv.data == -(int)n && event.ev.ev_recv.len == lengths[n]);
          CHECK(event.ev.ev_recv.src_addr.u == node_of(left()).u && event.ev.ev_recv.src_port == port);
          CHECK(event.ev.ev_recv.vaddr == mine + offset && event.ev.ev_recv.buf == target);
          CHECK(event.ev.ev_recv.buflen == LARGE && event.ev.ev_recv.context == (am_context_t)rank + 7);
          ++received;
        }
      }
      CHECK(sent == 1 && received == 1);
      nothing_is_left();
    }
    barrier();
    forget(target, LARGE, AM_PERSISTENT_BUF);
    release(kinds[k], target);
    release(kinds[(k + 1) % 3], source);
  }
}

static void a_get_reads_what_is_registered(void) {
  am_vaddr_t all[MOST_RANKS];
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
    unsigned char* const source = memory_of(kinds[k], LARGE);
    unsigned char* const target = memory_of(kinds[(k + 2) % 3], LARGE);
    const am_vaddr_t mine = known(source, LARGE, AM_PERSISTENT_BUF);
    paint(source, LARGE);
    tell_all(&mine, 1, all);
    for (int r = 0; r < size; ++r) {
      memset(target, 0, LARGE);
      must(am_get(link_, node_of(r), AM_BLOCKING, 5, target, LARGE - 32, all[r]), "am_get");
      const am_event_t event = next_of(AM_TYPE_GET);
      CHECK(painted_by(r, target, LARGE - 32) && target[LARGE - 32] == 0);
      CHECK(event.ev.ev_get.src_addr.u == node_of(r).u && event.ev.ev_get.len == LARGE - 32);
      CHECK(event.ev.ev_get.buf == target && event.ev.ev_get.rem_vaddr == all[r] && event.ev.ev_get.context == 5);
      nothing_is_left();
    }
    barrier();
    forget(source, LARGE, AM_PERSISTENT_BUF);
    release(kinds[k], source);
    release(kinds[(k + 2) % 3], target);
  }
}

/* Memory of the device, which may be a GPU's, is filled and looked at by messages alone. */
static void memory_of_the_device_is_put_to_and_got_from(void) {
  static const size_t lengths[] = {16, 4096, LARGE};
  unsigned char *const near = memory_of("host", LARGE), *const found = memory_of("host", LARGE);
  unsigned char *const from = memory_of("device", LARGE), *const to = memory_of("device", LARGE);
  am_vaddr_t mine[2] = {known(from, LARGE, AM_PERSISTENT_BUF), known(to, LARGE, AM_PERSISTENT_BUF)};
  static am_vaddr_t all[2 * MOST_RANKS];
  tell_all(mine, 2, all);
  paint(near, LARGE);
  must(am_put(link_, node_of(rank), port, 0, AM_BLOCKING, 0, near, LARGE, mine[0]), "am_put");
  (void)next();
  (void)next();
  for (size_t n = 0; n < sizeof lengths / sizeof *lengths; ++n) {
    barrier();
    must(am_put(link_, node_of(right()), port, (int)n, AM_NONBLOCKING, 0, from, lengths[n], all[2 * right() + 1]),
         "am_put");
    int received = 0;
    for (int events = 0; events < 2; ++events) received += next().ev_type == AM_TYPE_RECV;
    CHECK(received == 1);
    must(am_get(link_, node_of(rank), AM_NONBLOCKING, 0, found, lengths[n], mine[1]), "am_get");
    (void)next_of(AM_TYPE_GET);
    CHECK(painted_by(left(), found, lengths[n]));
    must(am_get(link_, node_of(right()), AM_BLOCKING, 0, found, lengths[n], all[2 * right()]), "am_get");
    (void)next_of(AM_TYPE_GET);
    CHECK(painted_by(right(), found, lengths[n]));
  }
  barrier();
  forget(from, LARGE, AM_PERSISTENT_BUF);
  forget(to, LARGE, AM_PERSISTENT_BUF);
  void* const all_of_it[] = {near, found, from, to};
  for (int k = 0; k < 4; ++k) must(ape_free(link_, all_of_it[k]), "ape_free");
}

static void streaming_buffers_are_used_once_in_order(void) {
  enum { COUNT = 6, BYTES = 100 };
  static unsigned char boxes[COUNT][BYTES];
  unsigned char source[BYTES];
  paint(source, BYTES);
  barrier();
  CHECK(am_send(link_, node_of(right()), port, 0, AM_NONBLOCKING, 0, source, BYTES) == APELINK_WOULDBLOCK);
  barrier();
  for (int i = 0; i < COUNT; ++i) (void)known(boxes[i], (size_t)(BYTES - i), AM_STREAMING_BUF);
  forget(boxes[2], BYTES - 2, AM_STREAMING_BUF);
  barrier();
  REFUSED(am_send(link_, node_of(right()), port, 0, AM_BLOCKING, 0, source, BYTES + 1), APELINK_ETOOLARGE,
          "do not fit the next streaming buffer");
  for (int i = 0; i < COUNT - 1; ++i) {
    must(am_send(link_, node_of(right()), port, i, AM_BLOCKING, 3, source, (size_t)(BYTES - 10 * i)), "am_send");
  }
  CHECK(am_send(link_, node_of(right()), port, 0, AM_NONBLOCKING, 0, source, 1) == APELINK_WOULDBLOCK);
  int sent = 0, received = 0;
  while (sent + received < 2 * (COUNT - 1)) {
    const am_event_t event = next();
    if (event.ev_type == AM_TYPE_SENT) {
      CHECK(event.ev.ev_sent.data == sent && event.ev.ev_sent.context == 3);
      ++sent;
      continue;
    }
    const int box = received < 2 ? received : received + 1; /* the third was taken back */
    CHECK(event.ev_type == AM_TYPE_RECV && event.ev.ev_recv.data == received);
    CHECK(event.ev.ev_recv.buf == boxes[box] && event.ev.ev_recv.buflen == (size_t)(BYTES - box));
    CHECK(event.ev.ev_recv.len == (size_t)(BYTES - 10 * received));
    CHECK(painted_by(left(), boxes[box], event.ev.ev_recv.len));
    REFUSED(am_unregister_buf(link_, (am_vaddr_t)(uintptr_t)boxes[box], boxes[box], (size_t)(BYTES - box),
                              AM_STREAMING_BUF),
            APELINK_EFAULT, "is registered by this link");
    ++received;
  }
  nothing_is_left();
  barrier();
}

static void streaming_buffers_may_be_taken_back_for_ever(void) {
  char box[32], source[32] = "still the first";
  char first[32];
  (void)known(first, sizeof first, AM_STREAMING_BUF);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    am_vaddr_t address;
    const int code = am_register_buf(link_, &address, box, sizeof box, 0, AM_STREAMING_BUF);
    if (code == APELINK_SUCCESS) forget(box, sizeof box, AM_STREAMING_BUF);
    refused += code == APELINK_ENOSPACE; /* the first still waits at the head of the queue */
  }
  CHECK(refused > 0 && refused < 1000);
  barrier();
  must(am_send(link_, node_of(right()), port, 1, AM_BLOCKING, 0, source, sizeof source), "am_send");
  for (int events = 0; events < 2; ++events) {
    const am_event_t event = next();
    if (event.ev_type == AM_TYPE_RECV) CHECK(event.ev.ev_recv.buf == first && strcmp(first, source) == 0);
  }
  for (int i = 0; i < 1000; ++i) {
    (void)known(box, sizeof box, AM_STREAMING_BUF);
    forget(box, sizeof box, AM_STREAMING_BUF);
  }
  barrier();
}

static void sends_that_are_refused_use_up_no_room_for_events(void) {
  char box[8];
  const char source[9] = "too much";
  (void)known(box, sizeof box, AM_STREAMING_BUF);
  barrier();
  for (int i = 0; i < 3 * QUEUE; ++i) {
    REFUSED(am_send(link_, node_of(right()), port, 0, AM_BLOCKING, 0, source, sizeof source), APELINK_ETOOLARGE,
            "do not fit the next streaming buffer");
  }
  barrier();
  must(am_send(link_, node_of(right()), port, 0, AM_BLOCKING, 0, source, sizeof box), "am_send");
  (void)next();
  (void)next();
  barrier();
}

/* Ten queues full: who finds a queue full takes events of its own, and goes on. */
static void events_of_one_source_come_in_order(void) {
  enum { COUNT = 10 * QUEUE };
  static _Alignas(16) int target[4];
  _Alignas(16) int source[4] = {0};
  am_vaddr_t all[MOST_RANKS];
  const am_vaddr_t mine = known(target, sizeof target, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  int put = 0, sent = 0, received = 0;
  while (sent < COUNT || received < COUNT) {
    am_event_t event;
    source[0] = put;
    const int code = put == COUNT ? APELINK_WOULDBLOCK
                                  : am_put(link_, node_of(right()), port, put, AM_NONBLOCKING, 0, source, sizeof source,
                                           all[right()]);
    if (code == APELINK_SUCCESS) {
      ++put;
      continue;
    }
    CHECK(code == APELINK_WOULDBLOCK || code == APELINK_EQUEUE);
    const int waited = am_wait_event(link_, &event, put == COUNT || code == APELINK_EQUEUE ? -1 : 1);
    if (waited == APELINK_WOULDBLOCK) continue;
    must(waited, "am_wait_event");
    if (event.ev_type == AM_TYPE_SENT) CHECK(event.ev.ev_sent.data == sent++);
    if (event.ev_type == AM_TYPE_RECV) {
      CHECK(event.ev.ev_recv.data == received++);
      CHECK(target[0] >= event.ev.ev_recv.data); /* later ones may have come on top */
    }
  }
  nothing_is_left();
  barrier();
  forget(target, sizeof target, AM_PERSISTENT_BUF);
}

static void a_full_queue_holds_puts_back(void) {
  if (size == 1) return;
  static _Alignas(16) char target[16];
  am_vaddr_t all[MOST_RANKS];
  const am_vaddr_t mine = known(target, sizeof target, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  if (rank == 0) {
    int put = 0, code = 0;
    for (; code == APELINK_SUCCESS; ++put) {
      code = am_put(link_, node_of(1), port, put, AM_NONBLOCKING, 0, target, 0, all[1]);
      if (code == APELINK_SUCCESS) (void)next_of(AM_TYPE_SENT);
    }
    CHECK(code == APELINK_WOULDBLOCK && put == QUEUE + 1);
  }
  barrier();
  if (rank == 1) {
    for (int i = 0; i < QUEUE; ++i) CHECK(next_of(AM_TYPE_RECV).ev.ev_recv.data == i);
    nothing_is_left();
  }
  barrier();
  if (rank == 0) { /* waits for room now, which comes as rank 1 takes */
    for (int i = 0; i < 4 * QUEUE; ++i) {
      must(am_put(link_, node_of(1), port, i, AM_BLOCKING, 0, target, 0, all[1]), "am_put");
      (void)next_of(AM_TYPE_SENT);
    }
  }
  for (int i = 0; rank == 1 && i < 4 * QUEUE; ++i) CHECK(next_of(AM_TYPE_RECV).ev.ev_recv.data == i);
  barrier();
  forget(target, sizeof target, AM_PERSISTENT_BUF);
}

static void own_completions_that_nobody_takes_are_refused(void) {
  static _Alignas(16) char target[16];
  const am_vaddr_t mine = known(target, sizeof target, AM_PERSISTENT_BUF);
  for (int i = 0; i < QUEUE; ++i) {
    must(am_get(link_, node_of(rank), AM_BLOCKING, 0, target, 0, mine), "am_get");
  }
  REFUSED(am_get(link_, node_of(rank), AM_BLOCKING, 0, target, 0, mine), APELINK_EQUEUE, "take them by am_wait_event");
  for (int i = 0; i < QUEUE; ++i) (void)next_of(AM_TYPE_GET);
  nothing_is_left();
  forget(target, sizeof target, AM_PERSISTENT_BUF);
  barrier();
}

static void a_buffer_may_be_unregistered_and_registered_again(void) {
  static _Alignas(16) char target[64];
  _Alignas(16) const char source[64] = "new";
  am_vaddr_t all[MOST_RANKS];
  const am_vaddr_t mine = known(target, 32, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  barrier();
  forget(target, 32, AM_PERSISTENT_BUF);
  REFUSED(am_unregister_buf(link_, mine, target, 32, AM_PERSISTENT_BUF), APELINK_EFAULT, "is registered by this link");
  barrier();
  REFUSED(am_put(link_, node_of(right()), port, 0, AM_BLOCKING, 0, source, 16, all[right()]), APELINK_EFAULT,
          "no persistent buffer registered");
  barrier();
  CHECK(target[0] == 0);
  (void)known(target, 64, AM_PERSISTENT_BUF);
  barrier();
  must(am_put(link_, node_of(right()), port, 0, AM_BLOCKING, 0, source, 64, all[right()]), "am_put");
  (void)next();
  (void)next();
  CHECK(strcmp(target, "new") == 0);
  barrier();
  forget(target, 64, AM_PERSISTENT_BUF);
  target[0] = 0;
}

/* Nothing is written, and no event comes. */
static void what_cannot_work_is_refused(void) {
  static _Alignas(16) char target[64];
  static const char nothing[64];
  char source[64], was[64];
  memset(source, '!', sizeof source);
  memcpy(was, source, sizeof was);
  am_vaddr_t all[MOST_RANKS], unused;
  unsigned x;
  const am_vaddr_t mine = known(target, sizeof target, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  const ape_net_address_t to = node_of(right());
  const am_vaddr_t there = all[right()];
  ape_net_address_t nowhere = to;
  nowhere.s.y = shape[1] & 0x7ffu;
  REFUSED(am_put(NULL, to, port, 0, 0, 0, source, 16, there), APELINK_EINVAL, "the link is null");
  REFUSED(am_put(link_, nowhere, port, 0, 0, 0, source, 16, there), APELINK_EADDRESS, "there is no node (");
  REFUSED(am_put(link_, to, AM_NPORTS, 0, 0, 0, source, 16, there), APELINK_EPORT, "there is no port 4");
  REFUSED(am_put(link_, to, 3, 0, 0, 0, source, 16, there), APELINK_EPORT, "is not open");
  REFUSED(am_put(link_, to, port, 0, 7, 0, source, 16, there), APELINK_EINVAL, "there are no flags 7");
  REFUSED(am_put(link_, to, port, 0, 0, 0, NULL, 16, there), APELINK_EINVAL, "is a null pointer");
  REFUSED(am_put(link_, to, port, 0, 0, 0, source, 24, there), APELINK_EALIGN, "24 B is not a multiple of 16");
  REFUSED(am_put(link_, to, port, 0, 0, 0, source, 16, there + 8), APELINK_EALIGN, "is not a multiple of 16");
  REFUSED(am_put(link_, to, port, 0, 0, 0, source, 32, there + 48), APELINK_ERANGE, "end 16 B after rank");
  REFUSED(am_put(link_, to, port, 0, 0, 0, source, 16, there + 64), APELINK_EFAULT, "no persistent buffer");
  REFUSED(am_put(link_, to, port, 0, 0, 0, source, 16, 0), APELINK_EFAULT, "no persistent buffer");
  REFUSED(am_put(link_, to, port, 0, 0, 0, source, AM_MAX_MSG_SIZE + 16, there), APELINK_ETOOLARGE, "AM_MAX_MSG_SIZE");
  REFUSED(am_get(link_, nowhere, 0, 0, source, 16, there), APELINK_EADDRESS, "there is no node (");
  REFUSED(am_get(link_, to, 0, 0, source, 8, there), APELINK_EALIGN, "8 B is not a multiple of 16");
  REFUSED(am_get(link_, to, 0, 0, source, 16, there + 8), APELINK_EALIGN, "is not a multiple of 16");
  REFUSED(am_get(link_, to, 0, 0, source, 32, there + 48), APELINK_ERANGE, "end 16 B after rank");
  REFUSED(am_get(link_, to, 0, 0, source, 80, there), APELINK_ERANGE, "end 16 B after rank");
  REFUSED(am_send(link_, to, AM_NPORTS, 0, 0, 0, source, 16), APELINK_EPORT, "there is no port 4");
  REFUSED(am_send(link_, to, port, 0, 0, 0, source, AM_MAX_MSG_SIZE + 1), APELINK_ETOOLARGE, "AM_MAX_MSG_SIZE");
  REFUSED(am_register_buf(link_, NULL, source, 16, 0, AM_PERSISTENT_BUF), APELINK_EINVAL, "virtual address is null");
  REFUSED(am_register_buf(link_, &unused, NULL, 16, 0, AM_PERSISTENT_BUF), APELINK_EINVAL, "a buffer of 16 B");
  REFUSED(am_register_buf(link_, &unused, source, 0, 0, AM_PERSISTENT_BUF), APELINK_EINVAL, "a buffer of 0 B");
  REFUSED(am_register_buf(link_, &unused, source, SIZE_MAX, 0, AM_PERSISTENT_BUF), APELINK_EINVAL, "all addresses");
  REFUSED(am_register_buf(link_, &unused, source, 16, 0, 9), APELINK_EINVAL, "there is no type 9");
  REFUSED(am_unregister_buf(link_, mine + 16, target, 64, AM_PERSISTENT_BUF), APELINK_EINVAL, "is not that of");
  REFUSED(am_unregister_buf(link_, mine, target, 32, AM_PERSISTENT_BUF), APELINK_EFAULT, "is registered by this link");
  REFUSED(am_unregister_buf(link_, mine, target, 64, AM_STREAMING_BUF), APELINK_EFAULT, "no streaming buffer");
  REFUSED(am_wait_event(link_, NULL, 0), APELINK_EINVAL, "the event's address is null");
  REFUSED(ape_get_topology(link_, &x, &x, NULL), APELINK_EINVAL, "axis's address is null");
  REFUSED(ape_free(link_, source), APELINK_EFAULT, "is no memory of ape_alloc");
  CHECK(ape_alloc(link_, 0, APE_HOST_MEMORY) == NULL && ape_alloc(link_, 16, 5) == NULL);
  am_portid_t number;
  CHECK(ape_open(1, &number) == NULL && strstr(ape_last_error(), "there is no device 1") != NULL);
  CHECK(ape_open(0, NULL) == NULL);
  barrier();
  CHECK(memcmp(target, nothing, sizeof target) == 0 && memcmp(source, was, sizeof source) == 0);
  nothing_is_left();
  forget(target, sizeof target, AM_PERSISTENT_BUF);
}

static void memory_that_is_registered_is_not_freed(void) {
  char* const memory = memory_of("device", 4096);
  (void)known(memory + 64, 64, AM_PERSISTENT_BUF);
  REFUSED(ape_free(link_, memory), APELINK_EBUSY, "unregister it first");
  forget(memory + 64, 64, AM_PERSISTENT_BUF);
  must(ape_free(link_, memory), "ape_free");
  REFUSED(ape_free(link_, memory), APELINK_EFAULT, "was freed before");
}

static void more_buffers_than_rows_are_refused(void) {
  static char buffers[300];
  am_vaddr_t unused;
  int registered = 0;
  while (registered < 300 && am_register_buf(link_, &unused, buffers + registered, 1, 0, AM_PERSISTENT_BUF) == 0) {
    ++registered;
  }
  CHECK(registered == 255 && strstr(ape_last_error(), "am_buffers") != NULL); /* one row is the doorbell's */
  for (int i = 0; i < registered; ++i) forget(buffers + i, 1, AM_PERSISTENT_BUF);
}

static void every_port_has_its_own_events(void) {
  static _Alignas(16) char target[16];
  am_vaddr_t all[MOST_RANKS];
  am_portid_t third, fourth;
  apelink_t links[2];
  links[0] = ape_open(0, &third);
  links[1] = ape_open(0, &fourth);
  CHECK(links[0] != NULL && links[1] != NULL && third == 2 && fourth == 3);
  am_portid_t none;
  CHECK(ape_open(0, &none) == NULL && strstr(ape_last_error(), "AM_NPORTS") != NULL);
  const am_vaddr_t mine = known(target, sizeof target, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  must(am_put(link_, node_of(right()), third, 30, AM_BLOCKING, 0, target, 0, all[right()]), "am_put");
  must(am_put(link_, node_of(right()), fourth, 40, AM_BLOCKING, 0, target, 0, all[right()]), "am_put");
  for (int k = 0; k < 2; ++k) {
    am_event_t event;
    must(am_wait_event(links[k], &event, -1), "am_wait_event");
    CHECK(event.ev_type == AM_TYPE_RECV && event.ev.ev_recv.data == (k == 0 ? 30 : 40));
    CHECK(am_wait_event(links[k], &event, 0) == APELINK_WOULDBLOCK);
    CHECK(next_of(AM_TYPE_SENT).ev.ev_sent.dst_port == (k == 0 ? third : fourth));
  }
  barrier();
  /* Events of a link that is closed are not those of the next one with its port. */
  must(am_put(link_, node_of(right()), fourth, 41, AM_BLOCKING, 0, target, 0, all[right()]), "am_put");
  (void)next_of(AM_TYPE_SENT);
  barrier();
  must(ape_close(links[1]), "ape_close");
  barrier();
  REFUSED(am_put(link_, node_of(right()), fourth, 42, AM_BLOCKING, 0, target, 0, all[right()]), APELINK_EPORT,
          "is not open");
  barrier();
  links[1] = ape_open(0, &fourth);
  CHECK(links[1] != NULL && fourth == 3);
  barrier();
  must(am_put(link_, node_of(right()), fourth, 43, AM_BLOCKING, 0, target, 0, all[right()]), "am_put");
  (void)next_of(AM_TYPE_SENT);
  am_event_t event;
  must(am_wait_event(links[1], &event, -1), "am_wait_event");
  CHECK(event.ev_type == AM_TYPE_RECV && event.ev.ev_recv.data == 43);
  barrier();
  must(ape_close(links[0]), "ape_close");
  must(ape_close(links[1]), "ape_close");
  REFUSED(ape_close(links[1]), APELINK_ECLOSED, "the link is closed");
  REFUSED(am_wait_event(links[1], &event, -1), APELINK_ECLOSED, "the link is closed");
  CHECK(ape_get_self_address(links[1]).u == ~0u);
  forget(target, sizeof target, AM_PERSISTENT_BUF);
}

static void waits_end_with_their_time(void) {
  am_event_t event;
  CHECK(am_wait_event(link_, &event, 0) == APELINK_WOULDBLOCK);
  const double start_s = now_s();
  CHECK(am_wait_event(link_, &event, 20) == APELINK_WOULDBLOCK);
  CHECK(now_s() - start_s >= 0.02);
}

static void* close_it(void* which) {
  must(ape_close(which), "ape_close");
  return NULL;
}

static void a_wait_ends_when_its_link_is_closed(void) {
  am_portid_t number;
  am_event_t event;
  apelink_t closing = ape_open(0, &number);
  pthread_t thread;
  CHECK(closing != NULL && pthread_create(&thread, NULL, close_it, closing) == 0);
  REFUSED(am_wait_event(closing, &event, -1), APELINK_ECLOSED, "closed");
  CHECK(pthread_join(thread, NULL) == 0);
}

/* A thread that naps in a wait hears that its link is closed when the next link has the port, and events there. */
static void* wait_at(void* which) {
  am_event_t event;
  REFUSED(am_wait_event(which, &event, -1), APELINK_ECLOSED, "closed");
  return NULL;
}

static void a_thread_that_still_waits_at_a_closed_link_takes_no_event_of_the_next(void) {
  static _Alignas(16) char target[16];
  for (int round = 0; round < 50; ++round) {
    am_portid_t number, again;
    am_vaddr_t there;
    am_event_t event;
    pthread_t thread;
    const struct timespec nap = {0, 500000 + round * 14000}, long_enough = {0, 3000000};
    apelink_t one = ape_open(0, &number);
    CHECK(one != NULL && pthread_create(&thread, NULL, wait_at, one) == 0);
    (void)nanosleep(&nap, NULL);
    must(ape_close(one), "ape_close");
    apelink_t two = ape_open(0, &again);
    CHECK(two != NULL && again == number);
    must(am_register_buf(two, &there, target, sizeof target, 0, AM_PERSISTENT_BUF), "am_register_buf");
    must(am_put(two, node_of(rank), again, round, AM_BLOCKING, 0, target, 0, there), "am_put");
    (void)nanosleep(&long_enough, NULL); /* for the other thread to wake */
    for (int events = 0; events < 2; ++events) must(am_wait_event(two, &event, 5000), "am_wait_event");
    CHECK(pthread_join(thread, NULL) == 0);
    must(ape_close(two), "ape_close");
  }
}

static void* put_many(void* to) {
  static _Alignas(16) const char source[16];
  for (int i = 0; i < 200; ++i) {
    int code;
    do {
      (void)sched_yield();
      code = am_put(link_, node_of(right()), port, i, AM_NONBLOCKING, 0, source, 16, *(const am_vaddr_t*)to);
    } while (code == APELINK_WOULDBLOCK || code == APELINK_EQUEUE);
    must(code, "am_put");
  }
  return NULL;
}

static void several_threads_put_and_take(void) {
  enum { THREADS = 3 };
  static _Alignas(16) char target[16];
  am_vaddr_t all[MOST_RANKS];
  pthread_t threads[THREADS];
  const am_vaddr_t mine = known(target, sizeof target, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  for (int k = 0; k < THREADS; ++k) CHECK(pthread_create(&threads[k], NULL, put_many, &all[right()]) == 0);
  for (int events = 0; events < 2 * 200 * THREADS; ++events) (void)next();
  for (int k = 0; k < THREADS; ++k) CHECK(pthread_join(threads[k], NULL) == 0);
  nothing_is_left();
  barrier();
  forget(target, sizeof target, AM_PERSISTENT_BUF);
}

struct flow {
  void* source;
  am_vaddr_t to;
};

static void* put_a_lot(void* what) {
  const struct flow* const flow = what;
  for (int i = 0; i < 100; ++i) {
    int code;
    do {
      (void)sched_yield();
      code = am_put(link_, node_of(right()), port, i, AM_NONBLOCKING, 0, flow->source, LARGE / 4, flow->to);
    } while (code == APELINK_WOULDBLOCK || code == APELINK_EQUEUE);
    must(code, "am_put");
  }
  return NULL;
}

static void an_idle_buffer_is_unregistered_while_another_is_put_to(void) {
  unsigned char* const target = memory_of("device", LARGE / 4);
  unsigned char* const idle = memory_of("device", LARGE / 4);
  am_vaddr_t all[MOST_RANKS];
  const am_vaddr_t mine = known(target, LARGE / 4, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  struct flow flow = {memory_of("device", LARGE / 4), all[right()]};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, put_a_lot, &flow) == 0);
  for (int events = 0; events < 2 * 100; ++events) {
    (void)known(idle, LARGE / 4, AM_PERSISTENT_BUF);
    forget(idle, LARGE / 4, AM_PERSISTENT_BUF);
    (void)next();
  }
  CHECK(pthread_join(thread, NULL) == 0);
  nothing_is_left();
  barrier();
  forget(target, LARGE / 4, AM_PERSISTENT_BUF);
  void* const all_of_it[] = {target, idle, flow.source};
  for (int k = 0; k < 3; ++k) must(ape_free(link_, all_of_it[k]), "ape_free");
}

static void every_code_has_its_words(void) {
  for (int code = APELINK_WOULDBLOCK; code >= APELINK_ESYSTEM; --code) {
    CHECK(strstr(ape_error_string(code), "no code") == NULL);
  }
  CHECK(strcmp(ape_error_string(-99), "no code of this interface") == 0);
}

static void links_may_be_opened_again(void) {
  end();
  start("am");
  barrier();
}

/* --- cases of their own --- */

/* Rank 1 is killed; the others wait for an event that never comes. */
static void a_killed_rank_ends_the_waits(void) {
  static _Alignas(16) char target[16];
  am_vaddr_t all[MOST_RANKS];
  am_event_t event;
  const am_vaddr_t mine = known(target, sizeof target, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  if (rank == 1) raise(SIGKILL);
  REFUSED(am_wait_event(link_, &event, -1), APELINK_EDEAD, "rank 1 (");
  REFUSED(am_put(link_, node_of(1), port, 0, AM_BLOCKING, 0, target, 16, all[1]), APELINK_EDEAD, "rank 1 (");
  REFUSED(am_wait_event(link_, &event, 0), APELINK_EDEAD, "rank 1 (");
  CHECK(strstr(ape_last_error(), "links are opened by all ranks of a job: start it again") != NULL);
  CHECK(strstr(ape_last_error(), "launch without") == NULL);
  printf("rank %d was told\n", rank);
}

/* Rank 1 stops until a get of rank 0's, which rank 1's helper serves, has passed its short deadline. */
static void links_are_opened_again_after_a_failure(void) {
  static const char go_on[] = "to go on, every rank closes all its links and opens them again";
  static _Alignas(16) char target[16];
  am_vaddr_t all[2 * MOST_RANKS];
  am_event_t event;
  const am_vaddr_t mine[2] = {known(target, sizeof target, AM_PERSISTENT_BUF), (am_vaddr_t)getpid()};
  int code = APELINK_SUCCESS;
  tell_all(mine, 2, all);
  if (rank == 1) raise(SIGSTOP);
  while (rank == 0 && code == APELINK_SUCCESS) {
    code = am_get(link_, node_of(1), AM_BLOCKING, 0, target, 16, all[2]);
    if (code == APELINK_SUCCESS) (void)next_of(AM_TYPE_GET);
  }
  if (rank == 0) {
    CHECK(code == APELINK_ETIMEOUT && strstr(ape_last_error(), go_on) != NULL);
    CHECK(kill((pid_t)all[3], SIGCONT) == 0);
  }
  code = APELINK_ETIMEOUT; /* of rank 1's own wait, which does not end the links */
  while (code == APELINK_ETIMEOUT && rank == 1) {
    code = am_wait_event(link_, &event, -1);
    if (code == APELINK_ETIMEOUT && strstr(ape_last_error(), "no event has come") == NULL) break;
  }
  if (rank == 1) CHECK(code < 0 && strstr(ape_last_error(), go_on) != NULL);
  must(ape_close(link_), "ape_close");
  must(ape_close(control), "ape_close");
  start("am");
  barrier();
  printf("rank %d was told\n", rank);
  end();
}

/* A get finds that the process is gone before the ranks have heard of it: much memory takes a while to go. */
static void a_get_from_a_killed_rank_says_that_it_is_dead(void) {
  static _Alignas(16) char target[16];
  am_vaddr_t all[MOST_RANKS];
  am_event_t event;
  const am_vaddr_t mine = known(target, sizeof target, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  if (rank == 1) (void)memory_of("plain", 256 * LARGE);
  if (rank == 1) raise(SIGKILL);
  int code = APELINK_SUCCESS;
  while (code == APELINK_SUCCESS) {
    code = am_get(link_, node_of(1), AM_BLOCKING, 0, target, 16, all[1]);
    if (code == APELINK_SUCCESS) code = am_wait_event(link_, &event, -1);
  }
  CHECK(code == APELINK_EDEAD);
  printf("rank %d was told\n", rank);
}

/* A rank's messages to itself are told of when all others have left. */
static void* put_to_itself(void* what) {
  const struct flow* const flow = what;
  must(am_put(link_, node_of(rank), port, 1, AM_BLOCKING, 0, flow->source, 64 * LARGE, flow->to), "am_put");
  return NULL;
}

static void own_messages_outlast_the_other_ranks(void) {
  am_event_t event;
  if (rank != 0) {
    must(ape_close(link_), "ape_close");
    must(ape_close(control), "ape_close");
    return;
  }
  void* const target = memory_of("host", 64 * LARGE);
  struct flow flow = {memory_of("host", 64 * LARGE), known(target, 64 * LARGE, AM_PERSISTENT_BUF)};
  REFUSED(am_wait_event(link_, &event, -1), APELINK_ECLOSED, "every other rank has closed its links");
  int seen = 0;
  for (int round = 0; round < 20; ++round) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, put_to_itself, &flow) == 0);
    int code = APELINK_ECLOSED; /* until the message is under way */
    while (code == APELINK_ECLOSED) code = am_wait_event(link_, &event, 0);
    seen += code == APELINK_WOULDBLOCK;
    if (code == APELINK_WOULDBLOCK) must(am_wait_event(link_, &event, -1), "am_wait_event");
    (void)next_of(event.ev_type == AM_TYPE_RECV ? AM_TYPE_SENT : AM_TYPE_RECV);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  CHECK(seen > 0);
  REFUSED(am_wait_event(link_, &event, -1), APELINK_ECLOSED, "every other rank has closed its links");
  forget(target, 64 * LARGE, AM_PERSISTENT_BUF);
  printf("rank 0 was told\n");
}

/* The sender's own memory is gone: the receiver's buffer is the last of its port then, and may be unregistered. */
static void a_send_that_fails_leaves_its_buffer_posted(void) {
  static char boxes[2][16];
  void* const gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(gone != MAP_FAILED && munmap(gone, 4096) == 0);
  for (int k = 0; k < 2; ++k) (void)known(boxes[k], 16, AM_STREAMING_BUF);
  barrier();
  REFUSED(am_send(link_, node_of(right()), port, 0, AM_BLOCKING, 0, gone, 16), APELINK_EFAULT,
          "is not mapped any more");
  barrier();
  nothing_is_left();
  barrier();
  must(am_send(link_, node_of(right()), port, 0, AM_BLOCKING, 0, "the second", 11), "am_send");
  for (int events = 0; events < 2; ++events) {
    const am_event_t event = next();
    if (event.ev_type == AM_TYPE_RECV) CHECK(event.ev.ev_recv.buf == boxes[1] && boxes[1][0] == 't');
  }
  forget(boxes[0], 16, AM_STREAMING_BUF);
  printf("rank %d was told\n", rank);
  end();
}

/* Rank 1 is stopped in the middle of a put, with a short deadline. */
static void* forget_it(void* what) {
  struct flow* const flow = what;
  const size_t bytes = 64 * LARGE;
  return am_unregister_buf(link_, flow->to, flow->source, bytes, AM_PERSISTENT_BUF) == APELINK_EBUSY ? what : NULL;
}

static void a_buffer_that_was_busy_may_be_unregistered_again(void) {
  static _Alignas(16) char other[16];
  am_vaddr_t all[2 * MOST_RANKS];
  volatile char* const target = memory_of("plain", 64 * LARGE);
  char* const source = memory_of("plain", 64 * LARGE);
  const am_vaddr_t mine[2] = {(am_vaddr_t)(uintptr_t)target, (am_vaddr_t)getpid()};
  memset(source, 1, 64 * LARGE);
  tell_all(mine, 2, all);
  int caught = 0;
  for (int round = 0; round < 10 && !caught; ++round) {
    if (rank == 0) (void)known((void*)(uintptr_t)target, 64 * LARGE, AM_PERSISTENT_BUF);
    target[0] = 0;
    barrier();
    if (rank == 1) {
      must(am_put(link_, node_of(0), port, 0, AM_BLOCKING, 0, source, 64 * LARGE, all[0]), "am_put");
      (void)next_of(AM_TYPE_SENT);
    } else {
      struct flow flow = {(void*)(uintptr_t)target, mine[0]};
      pthread_t thread;
      void* busy;
      while (target[0] == 0) (void)sched_yield();
      CHECK(kill((pid_t)all[3], SIGSTOP) == 0);
      const double start_s = now_s();
      CHECK(pthread_create(&thread, NULL, forget_it, &flow) == 0);
      am_event_t event;
      const int early = am_wait_event(link_, &event, 100);
      CHECK(early >= 0);
      (void)known(other, sizeof other, AM_PERSISTENT_BUF);
      forget(other, sizeof other, AM_PERSISTENT_BUF);
      CHECK(now_s() - start_s < 1.5); /* the other thread still waits */
      CHECK(pthread_join(thread, &busy) == 0 && kill((pid_t)all[3], SIGCONT) == 0);
      caught = busy != NULL;
      if (caught) {
        forget((void*)(uintptr_t)target, 64 * LARGE, AM_PERSISTENT_BUF);
        CHECK(now_s() - start_s >= 2);
      }
      if (early == APELINK_WOULDBLOCK) (void)next_of(AM_TYPE_RECV);
    }
    const am_vaddr_t told = (am_vaddr_t)caught;
    am_vaddr_t both[MOST_RANKS];
    tell_all(&told, 1, both);
    caught = both[0] != 0;
  }
  CHECK(caught);
  printf("rank %d was told\n", rank);
  end();
}

/* What a rank sent before it closed is still taken; then the others are told. */
static void a_closed_rank_is_told_of(void) {
  static _Alignas(16) char target[16];
  am_vaddr_t all[MOST_RANKS];
  am_event_t event;
  const am_vaddr_t mine = known(target, sizeof target, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  if (rank != 0) {
    must(am_put(link_, node_of(0), port, rank, AM_BLOCKING, 0, target, 16, all[0]), "am_put");
    must(ape_close(link_), "ape_close");
    must(ape_close(control), "ape_close");
    return;
  }
  for (int r = 1; r < size; ++r) (void)next_of(AM_TYPE_RECV);
  REFUSED(am_wait_event(link_, &event, -1), APELINK_ECLOSED, "every other rank has closed its links");
  REFUSED(am_wait_event(link_, &event, 0), APELINK_ECLOSED, "every other rank has closed its links");
  REFUSED(am_put(link_, node_of(1), port, 0, AM_BLOCKING, 0, target, 16, all[1]), APELINK_ECLOSED, "rank 1, node");
  REFUSED(am_get(link_, node_of(1), AM_BLOCKING, 0, target, 16, all[1]), APELINK_ECLOSED, "rank 1, node");
  printf("rank 0 was told\n");
}

/* With a short deadline. The job goes on behind each. */
static void waits_end_at_the_deadline(void) {
  static _Alignas(16) char target[16];
  am_vaddr_t all[MOST_RANKS];
  am_event_t event;
  const am_vaddr_t mine = known(target, sizeof target, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  if (rank == 0) {
    REFUSED(am_wait_event(link_, &event, -1), APELINK_ETIMEOUT, "no event has come within");
  } else {
    REFUSED(am_send(link_, node_of(0), port, 0, AM_BLOCKING, 0, target, 16), APELINK_ETIMEOUT,
            "had no streaming buffer posted on port 1 within");
  }
  CHECK(am_wait_event(link_, &event, 0) == APELINK_WOULDBLOCK);
  printf("rank %d was told\n", rank);
  end();
}

static void a_full_queue_ends_a_put_at_the_deadline(void) {
  static _Alignas(16) char target[16];
  am_vaddr_t all[MOST_RANKS];
  const am_vaddr_t mine = known(target, sizeof target, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  if (rank == 0) {
    for (int i = 0; i < QUEUE; ++i) {
      must(am_put(link_, node_of(1), port, i, AM_BLOCKING, 0, target, 0, all[1]), "am_put");
      (void)next_of(AM_TYPE_SENT);
    }
    REFUSED(am_put(link_, node_of(1), port, 0, AM_BLOCKING, 0, target, 0, all[1]), APELINK_ETIMEOUT,
            "had no room for an event on port 1 within");
    nothing_is_left();
    printf("rank 0 was told\n");
    must(ape_close(link_), "ape_close");
    must(ape_close(control), "ape_close");
    return;
  }
  int taken = 0; /* not before rank 0 has given up: its goodbye comes behind all that it sent */
  am_event_t event;
  int code = APELINK_SUCCESS;
  while (code == APELINK_SUCCESS || code == APELINK_ETIMEOUT) code = am_wait_event(control, &event, -1);
  CHECK(code == APELINK_ECLOSED);
  for (; am_wait_event(link_, &event, 0) == APELINK_SUCCESS; ++taken) CHECK(event.ev.ev_recv.data == taken);
  CHECK(taken == QUEUE);
}

/* Memory that its owner unmapped and did not unregister: the system says so to whoever copies to it. */
static void memory_that_is_gone_is_refused(void) {
  enum { BYTES = 1 << 16 };
  char* const target = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(target != MAP_FAILED);
  _Alignas(16) char source[16] = "";
  am_vaddr_t all[MOST_RANKS];
  const am_vaddr_t mine = known(target, BYTES, AM_PERSISTENT_BUF);
  tell_all(&mine, 1, all);
  CHECK(munmap(target, BYTES) == 0);
  barrier();
  REFUSED(am_put(link_, node_of(right()), port, 0, AM_BLOCKING, 0, source, 16, all[right()]), APELINK_EFAULT,
          "is not mapped any more");
  nothing_is_left();
  am_vaddr_t unused;
  REFUSED(am_register_buf(link_, &unused, target, BYTES, 0, AM_PERSISTENT_BUF), APELINK_EFAULT, "nothing is mapped at");
  printf("rank %d was told\n", rank);
  end();
}

static void the_shape_is_printed(void) {
  printf("rank %d is (%u, %u, %u) of %ux%ux%u\n", rank, ape_get_self_address(link_).s.x,
         ape_get_self_address(link_).s.y, ape_get_self_address(link_).s.z, shape[0], shape[1], shape[2]);
  end();
}

/* Where test_dropped_rights.py asks for that: the ranks have attached to each other when the first link is open. */
static void drop_rights_if_asked(void) {
  const unsigned nobody = 65534;
  if (getenv("ONSTREAM_TEST_DROP_RIGHTS") == NULL) return;
  barrier();
  if (geteuid() == 0) {
    CHECK(setgroups(0, NULL) == 0 && setgid(nobody) == 0 && setuid(nobody) == 0);
  } else {
    CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
  }
  barrier();
}

struct test_case {
  const char* name;
  void (*run)(void);
};
#define CASE(name) {#name, name},

// clang-format off
static const struct test_case together[] = {
    CASE(a_put_is_there_before_its_event)
    CASE(a_get_reads_what_is_registered)
    CASE(memory_of_the_device_is_put_to_and_got_from)
    CASE(streaming_buffers_are_used_once_in_order)
    CASE(streaming_buffers_may_be_taken_back_for_ever)
    CASE(sends_that_are_refused_use_up_no_room_for_events)
    CASE(events_of_one_source_come_in_order)
    CASE(a_full_queue_holds_puts_back)
    CASE(own_completions_that_nobody_takes_are_refused)
    CASE(a_buffer_may_be_unregistered_and_registered_again)
    CASE(what_cannot_work_is_refused)
    CASE(memory_that_is_registered_is_not_freed)
    CASE(more_buffers_than_rows_are_refused)
    CASE(every_port_has_its_own_events)
    CASE(waits_end_with_their_time)
    CASE(a_wait_ends_when_its_link_is_closed)
    CASE(a_thread_that_still_waits_at_a_closed_link_takes_no_event_of_the_next)
    CASE(several_threads_put_and_take)
    CASE(an_idle_buffer_is_unregistered_while_another_is_put_to)
    CASE(every_code_has_its_words)
    CASE(links_may_be_opened_again)
};

static const struct test_case alone[] = {
    CASE(a_killed_rank_ends_the_waits)
    CASE(a_get_from_a_killed_rank_says_that_it_is_dead)
    CASE(links_are_opened_again_after_a_failure)
    CASE(own_messages_outlast_the_other_ranks)
    CASE(a_send_that_fails_leaves_its_buffer_posted)
    CASE(a_buffer_that_was_busy_may_be_unregistered_again)
    CASE(a_closed_rank_is_told_of)
    CASE(waits_end_at_the_deadline)
    CASE(a_full_queue_ends_a_put_at_the_deadline)
    CASE(memory_that_is_gone_is_refused)
    CASE(the_shape_is_printed)
};
// clang-format on

int main(int argc, char** argv) {
  choose_kinds();
  start("am");
  drop_rights_if_asked();
  if (argc == 1) {
    for (size_t i = 0; i < sizeof together / sizeof *together; ++i) {
      together[i].run();
      nothing_is_left();
      barrier();
      if (rank == 0) printf("passed %s\n", together[i].name);
      fflush(stdout);
    }
    end();
    return 0;
  }
  for (size_t i = 0; i < sizeof alone / sizeof *alone; ++i) {
    if (strcmp(alone[i].name, argv[1]) != 0) continue;
    alone[i].run();
    return 0;
  }
  fprintf(stderr, "there is no case %s\n", argv[1]);
  return 2;
}
