/* One-way latency of am_put between 2 ranks: half of a round trip, in which each waits for its event and puts back.
 *
 *   am_latency --memory device,host --samples 20 --iterations 1000 32 64 ... (bytes, multiples of 16)
 *
 * Prints one JSON line for each memory and size, with the seconds one way of each sample; and, where events tell times
 * (ONSTREAM_AM_STAMPS=on), the median nanoseconds of each step of a message: call to payload there, to event written,
 * to event seen. The last message is compared, byte for byte, before anything is printed. */
#include "am_common.h"

enum { MOST_SAMPLES = 1000, MOST_BYTES = 1 << 20, STEPS = 3, KEPT = 4096 };

static unsigned char *ours, *landing; /* put from, put to */
static am_vaddr_t landings[2];
static double steps_ns[STEPS][KEPT];
static int kept;

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void keep(const am_times_t* times) {
  if (times->copied == 0 || kept == KEPT) return;
  steps_ns[0][kept] = (double)(times->copied - times->entered);
  steps_ns[1][kept] = (double)(times->posted - times->copied);
  steps_ns[2][kept] = (double)(times->seen - times->posted);
  ++kept;
}

static void put(size_t bytes, int tag) {
  must(am_put(link_, node_of(1 - rank), port, tag, AM_NONBLOCKING, 0, ours, bytes, landings[1 - rank]), "am_put");
}

/* Takes events until the ball is here and our own last put is done. */
static void wait_for(int tag) {
  am_event_t event;
  do {
    must(am_wait_event(link_, &event, -1), "am_wait_event");
  } while (event.ev_type != AM_TYPE_RECV);
  if (event.ev.ev_recv.data != tag) fail("am_wait_event", "the ball has another number");
  keep(&event.times);
}

static double round_trips(size_t bytes, int count) {
  barrier();
  const double start_s = now_s();
  for (int i = 0; i < count; ++i) {
    if (rank == 0) put(bytes, i);
    wait_for(i);
    if (rank == 1) put(bytes, i);
  }
  return (now_s() - start_s) / count / 2;
}

/* A GPU's memory too is filled and looked at by this interface: by messages to oneself. */
static void own_message(int gets, void* local, void* there, size_t bytes) {
  am_vaddr_t address;
  must(am_register_buf(link_, &address, there, bytes, 0, AM_PERSISTENT_BUF), "am_register_buf");
  if (gets) {
    must(am_get(link_, node_of(rank), AM_BLOCKING, 0, local, bytes, address), "am_get");
  } else {
    must(am_put(link_, node_of(rank), port, 0, AM_BLOCKING, 0, local, bytes, address), "am_put");
  }
  must(am_unregister_buf(link_, address, there, bytes, AM_PERSISTENT_BUF), "am_unregister_buf");
  am_event_t event;
  while (am_wait_event(link_, &event, 0) == APELINK_SUCCESS) {
  }
}

static unsigned char byte_of(int owner, size_t place) { return (unsigned char)(owner * 101 + (int)(place * 7) + 1); }

static void fill(void) {
  static unsigned char pattern[MOST_BYTES];
  for (size_t i = 0; i < MOST_BYTES; ++i) pattern[i] = byte_of(rank, i);
  own_message(0, pattern, ours, MOST_BYTES);
}

static void look(size_t bytes) {
  static unsigned char found[MOST_BYTES];
  own_message(1, found, landing, bytes);
  for (size_t i = 0; i < bytes; ++i) {
    if (found[i] != byte_of(1 - rank, i)) fail("am_put", "what came is not what was sent");
  }
}

static void measure(const char* memory, size_t bytes, int samples, int iterations) {
  static double seconds[MOST_SAMPLES];
  (void)round_trips(bytes, iterations / 10 + 1);
  kept = 0;
  for (int k = 0; k < samples; ++k) seconds[k] = round_trips(bytes, iterations);
  barrier();
  look(bytes);
  if (rank != 0) return;
  printf("{\"case\": \"put\", \"memory\": \"%s\", \"bytes\": %zu, \"samples_s\": [", memory, bytes);
  for (int k = 0; k < samples; ++k) printf("%s%.4e", k == 0 ? "" : ", ", seconds[k]);
  printf("]");
  if (kept > 0) {
    printf(", \"steps_ns\": [");
    for (int step = 0; step < STEPS; ++step) {
      qsort(steps_ns[step], (size_t)kept, sizeof(double), compare);
      printf("%s%.0f", step == 0 ? "" : ", ", steps_ns[step][kept / 2]);
    }
    printf("]");
  }
  printf("}\n");
  fflush(stdout);
}

int main(int argc, char** argv) {
  char memories[64] = "device";
  int samples = 20, iterations = 1000, first = 1;
  for (; first + 1 < argc && strncmp(argv[first], "--", 2) == 0; first += 2) {
    const char* const value = argv[first + 1];
    if (strcmp(argv[first], "--memory") == 0) snprintf(memories, sizeof memories, "%s", value);
    if (strcmp(argv[first], "--samples") == 0) samples = atoi(value);
    if (strcmp(argv[first], "--iterations") == 0) iterations = atoi(value);
  }
  start("am_latency");
  if (size != 2) fail("start", "2 ranks are needed");
  if (samples < 1 || samples > MOST_SAMPLES || iterations < 1) fail("start", "1 to 1000 samples of 1 round or more");
  for (const char* memory = strtok(memories, ","); memory != NULL; memory = strtok(NULL, ",")) {
    ours = memory_of(memory, MOST_BYTES);
    landing = memory_of(memory, MOST_BYTES);
    fill();
    am_vaddr_t mine;
    must(am_register_buf(link_, &mine, landing, MOST_BYTES, 0, AM_PERSISTENT_BUF), "am_register_buf");
    tell_all(&mine, 1, landings);
    for (int k = first; k < argc; ++k) {
      const size_t bytes = strtoul(argv[k], NULL, 10);
      if (bytes == 0 || bytes > MOST_BYTES) fail(argv[k], "sizes are 16 B to 1 MiB");
      measure(memory, bytes, samples, iterations);
    }
    barrier();
    must(am_unregister_buf(link_, mine, landing, MOST_BYTES, AM_PERSISTENT_BUF), "am_unregister_buf");
  }
  end();
  return 0;
}
