/* For programs of registered buffers: two links, addresses told to all, and a barrier.
 *
 * The first link is for that alone. The program's puts go to the second one's port, so a rank that runs ahead never
 * meets another's set-up. A rank whose addresses have come has both open. A call that fails ends the program with
 * status 1 and the library's own words. */
#ifndef ONSTREAM_BENCH_AM_COMMON_H
#define ONSTREAM_BENCH_AM_COMMON_H

#include <onstream_am.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RANKS = 64, MOST_ADDRESSES = 16 };

static const char* program_name;
static apelink_t control, link_;
static am_portid_t control_port, port;
static unsigned shape[3];
static int rank, size;
static am_vaddr_t doorbells[MOST_RANKS]; /* of the barrier */
static int epoch, rung[2];

static void fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s: %s\n", program_name, what, why);
  exit(1);
}

/* In the library's words, which name the call. */
static void fail_as_told(void) {
  fprintf(stderr, "%s: %s\n", program_name, ape_last_error());
  exit(1);
}

static void must(int code, const char* what) {
  if (code < 0) fail_as_told();
  if (code != APELINK_SUCCESS) fail(what, ape_error_string(code));
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static ape_net_address_t node_of(int which) {
  ape_net_address_t node;
  node.u = 0;
  node.s.x = (unsigned)which % shape[0] & 0x7ffu;
  node.s.y = (unsigned)which / shape[0] % shape[1] & 0x7ffu;
  node.s.z = (unsigned)which / shape[0] / shape[1] & 0x3ffu;
  return node;
}

static int rank_of(ape_net_address_t node) { return (int)(node.s.x + shape[0] * (node.s.y + shape[1] * node.s.z)); }

enum { DOORBELL = 1, BOX = 2 }; /* contexts of the control port's buffers */

/* Takes one event of the control link: a doorbell is counted, with its sent event; a box's is the caller's. */
static am_event_t control_event(void) {
  am_event_t event;
  must(am_wait_event(control, &event, -1), "am_wait_event");
  if (event.ev_type == AM_TYPE_RECV && event.ev.ev_recv.context == DOORBELL) ++rung[event.ev.ev_recv.data % 2];
  return event;
}

/* Doorbells: empty puts, whose tag is the number of the barrier. Nobody is more than one ahead. */
static void barrier(void) {
  int sent = 0;
  ++epoch;
  for (int r = 0; r < size; ++r) {
    must(am_put(control, node_of(r), control_port, epoch, AM_BLOCKING, DOORBELL, NULL, 0, doorbells[r]), "am_put");
  }
  while (sent < size || rung[epoch % 2] < size) sent += control_event().ev_type == AM_TYPE_SENT;
  rung[epoch % 2] = 0;
}

/* The addresses of every rank, `count` of each: all[r * count + k]. Everybody posts a streaming buffer for everybody,
 * and sends its own. */
static void tell_all(const am_vaddr_t* mine, int count, am_vaddr_t* all) {
  static am_vaddr_t boxes[MOST_RANKS][MOST_ADDRESSES];
  const size_t bytes = (size_t)count * sizeof *mine;
  am_vaddr_t unused;
  for (int r = 0; r < size; ++r) {
    must(am_register_buf(control, &unused, boxes[r], bytes, BOX, AM_STREAMING_BUF), "am_register_buf");
  }
  for (int r = 0; r < size; ++r) {
    must(am_send(control, node_of(r), control_port, rank, AM_BLOCKING, BOX, mine, bytes), "am_send");
  }
  for (int sent = 0, come = 0; sent < size || come < size;) {
    const am_event_t event = control_event();
    sent += event.ev_type == AM_TYPE_SENT;
    if (event.ev_type != AM_TYPE_RECV || event.ev.ev_recv.context != BOX) continue;
    memcpy(all + event.ev.ev_recv.data * count, event.ev.ev_recv.buf, bytes);
    ++come;
  }
  barrier(); /* nobody sends the next ones into boxes of these */
}

static void start(const char* name) {
  static _Alignas(16) char doorbell[16];
  am_vaddr_t mine;
  program_name = name;
  control = ape_open(0, &control_port);
  if (control == NULL) fail_as_told();
  link_ = ape_open(0, &port);
  if (link_ == NULL) fail_as_told();
  must(ape_get_topology(control, &shape[0], &shape[1], &shape[2]), "ape_get_topology");
  size = (int)(shape[0] * shape[1] * shape[2]);
  rank = rank_of(ape_get_self_address(control));
  if (size > MOST_RANKS) fail("start", "too many ranks");
  must(am_register_buf(control, &mine, doorbell, sizeof doorbell, DOORBELL, AM_PERSISTENT_BUF), "am_register_buf");
  tell_all(&mine, 1, doorbells);
}

static void end(void) {
  barrier();
  must(ape_close(link_), "ape_close");
  must(ape_close(control), "ape_close");
}

/* Of device or host memory, or plain. */
static void* memory_of(const char* kind, size_t bytes) {
  void* memory = NULL;
  if (strcmp(kind, "plain") == 0) {
    memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (memory != NULL) memset(memory, 0, bytes);
  } else {
    const int where = strcmp(kind, "device") == 0 ? APE_DEVICE_MEMORY : APE_HOST_MEMORY;
    memory = ape_alloc(link_, bytes, where);
  }
  if (memory == NULL) fail("memory", strcmp(kind, "plain") == 0 ? "malloc has none" : ape_last_error());
  return memory;
}

#endif
