/* A stencil over a 2-D torus of ranks by registered buffers alone, with and without the bounce copy.
 *
 *   ONSTREAM_TORUS=2x2x1 onstream run -n 4 am_stencil --nx 256 --ny 256 --steps 100 --samples 5
 *
 * Each step computes the cells along the edges, starts the bulk, puts the edges into the neighbours' ghost cells, and
 * waits until its edges are sent and its ghost cells are written, and for the bulk. `direct` puts from where the edges
 * were computed to where they are used; `bounce` copies them to a buffer of the host before, and from one behind. Ghost
 * cells and buffers are double, by the step's parity: a neighbour may be one step ahead. By the CPU the bulk follows
 * the puts.
 *
 * Both ways must give the same bits, and with --check those of a computation of the whole grid by one rank. Prints one
 * JSON line for each way, with the seconds a step of each sample. */
#include "am_common.h"
#include "am_stencil_cells.h"

enum { MOST_SAMPLES = 1000 };
enum way { DIRECT, BOUNCE };
static const char* const way_names[] = {"direct", "bounce"};

static int nx = 256, ny = 256;
static struct sides edges[2], ghosts[2];      /* by parity: computed to and from */
static struct sides outgoing[2], incoming[2]; /* registered; of `direct` the same as the above */
static am_vaddr_t landing[2][SIDES];          /* of the neighbours, where an edge of that side goes */
static int arrived[2], sent;

static size_t bytes_of(int side) { return (size_t)(side == WEST || side == EAST ? ny : nx) * sizeof(double); }
static int opposite(int side) { return side ^ 1; }

static ape_net_address_t neighbour(int side) {
  ape_net_address_t node = ape_get_self_address(link_);
  if (side == WEST) node.s.x = (node.s.x + shape[0] - 1) % shape[0] & 0x7ffu;
  if (side == EAST) node.s.x = (node.s.x + 1) % shape[0] & 0x7ffu;
  if (side == SOUTH) node.s.y = (node.s.y + shape[1] - 1) % shape[1] & 0x7ffu;
  if (side == NORTH) node.s.y = (node.s.y + 1) % shape[1] & 0x7ffu;
  return node;
}

/* The number at a place of the whole grid at the start. */
static double first_value(int x, int y) { return (double)((x * 7919 + y * 104729 + x * y) % 1000) / 1000.0; }

static void put_edges(enum way way, int step) {
  const int parity = step % 2;
  sent = 0;
  for (int side = 0; side < SIDES; ++side) {
    double* const from = outgoing[parity].of[side];
    if (way == BOUNCE) cells_copy(from, edges[parity].of[side], bytes_of(side));
    must(am_put(link_, neighbour(side), port, step, AM_NONBLOCKING, 0, from, bytes_of(side), landing[parity][side]),
         "am_put");
  }
}

/* Until this step's edges are sent and have come. Those of the next may come in between. */
static void wait_for_edges(enum way way, int step) {
  const int parity = step % 2;
  while (sent < SIDES || arrived[parity] < SIDES) {
    am_event_t event;
    must(am_wait_event(link_, &event, -1), "am_wait_event");
    if (event.ev_type == AM_TYPE_SENT) ++sent;
    if (event.ev_type == AM_TYPE_RECV) ++arrived[event.ev.ev_recv.data % 2];
  }
  arrived[parity] = 0;
  for (int side = 0; way == BOUNCE && side < SIDES; ++side) {
    cells_copy(ghosts[parity].of[side], incoming[parity].of[side], bytes_of(side));
  }
}

static double run(enum way way, int steps, const double* start) {
  cells_load(start);
  cells_first_edges(edges[0]);
  cells_boundary_done();
  put_edges(way, 0);
  wait_for_edges(way, 0);
  barrier();
  const double start_s = now_s();
  for (int step = 0; step < steps; ++step) {
    cells_boundary(ghosts[step % 2], edges[(step + 1) % 2]);
    if (on_device) cells_bulk();
    cells_boundary_done();
    put_edges(way, step + 1);
    if (!on_device) cells_bulk();
    wait_for_edges(way, step + 1);
    cells_bulk_done();
    cells_next();
  }
  const double seconds = (now_s() - start_s) / steps;
  barrier();
  return seconds;
}

/* Memory of one way, registered and told to the neighbours: where the edge of a side goes is the other side's ghost. */
static void prepare(enum way way) {
  const char* const kind = way == DIRECT ? "device" : "host";
  am_vaddr_t mine[2 * SIDES];
  static am_vaddr_t all[MOST_RANKS * 2 * SIDES];
  for (int parity = 0; parity < 2; ++parity) {
    for (int side = 0; side < SIDES; ++side) {
      double* const from = memory_of(kind, bytes_of(side));
      double* const to = memory_of(kind, bytes_of(side));
      outgoing[parity].of[side] = from;
      incoming[parity].of[side] = to;
      edges[parity].of[side] = way == DIRECT ? from : cells_array(bytes_of(side));
      ghosts[parity].of[side] = way == DIRECT ? to : cells_array(bytes_of(side));
      if (edges[parity].of[side] == NULL || ghosts[parity].of[side] == NULL) fail("start", "there is no memory");
      must(am_register_buf(link_, &mine[parity * SIDES + side], to, bytes_of(side), 0, AM_PERSISTENT_BUF),
           "am_register_buf");
    }
  }
  tell_all(mine, 2 * SIDES, all);
  for (int parity = 0; parity < 2; ++parity) {
    for (int side = 0; side < SIDES; ++side) {
      landing[parity][side] = all[rank_of(neighbour(side)) * 2 * SIDES + parity * SIDES + opposite(side)];
    }
  }
}

/* The same by one rank: the whole grid, without neighbours. */
static void check(const double* tile, int steps) {
  const int wide = nx * (int)shape[0], high = ny * (int)shape[1];
  double* now = malloc((size_t)wide * (size_t)high * sizeof *now);
  double* next = malloc((size_t)wide * (size_t)high * sizeof *next);
  if (now == NULL || next == NULL) fail("check", "there is no memory for the whole grid");
  for (int i = 0; i < wide * high; ++i) now[i] = first_value(i % wide, i / wide);
  for (int step = 0; step < steps; ++step) {
    for (int y = 0; y < high; ++y) {
      const double* const south = now + (y + high - 1) % high * wide;
      const double* const north = now + (y + 1) % high * wide;
      const double* const row = now + y * wide;
      for (int x = 0; x < wide; ++x) {
        next[y * wide + x] = 0.25 * ((row[(x + wide - 1) % wide] + row[(x + 1) % wide]) + (south[x] + north[x]));
      }
    }
    double* const swapped = now;
    now = next;
    next = swapped;
  }
  const ape_net_address_t self = ape_get_self_address(link_);
  for (int y = 0; y < ny; ++y) {
    const double* const row = now + ((int)self.s.y * ny + y) * wide + (int)self.s.x * nx;
    if (memcmp(row, tile + y * nx, bytes_of(SOUTH)) != 0) fail("check", "the cells are not those of one rank alone");
  }
  free(now);
  free(next);
}

static void measure(enum way way, int steps, int samples, int checks) {
  const size_t cells = (size_t)nx * (size_t)ny * sizeof(double);
  static double *start, *answer, *end_;
  static double seconds[MOST_SAMPLES];
  if (start == NULL) {
    start = malloc(cells), answer = malloc(cells), end_ = malloc(cells);
    if (start == NULL || answer == NULL || end_ == NULL) fail("start", "there is no memory for the cells");
  }
  const ape_net_address_t self = ape_get_self_address(link_);
  for (int i = 0; i < nx * ny; ++i) start[i] = first_value((int)self.s.x * nx + i % nx, (int)self.s.y * ny + i / nx);
  prepare(way);
  for (int k = 0; k < samples; ++k) seconds[k] = run(way, steps, start);
  cells_store(end_);
  if (way == DIRECT) memcpy(answer, end_, cells);
  if (memcmp(answer, end_, cells) != 0) fail("bounce", "the cells are not those of the direct way");
  if (checks) check(end_, steps);
  barrier();
  if (rank != 0) return;
  printf("{\"case\": \"stencil\", \"way\": \"%s\", \"by\": \"%s\", \"torus\": \"%ux%ux%u\", \"nx\": %d, \"ny\": %d, ",
         way_names[way], on_device ? "gpu" : "cpu", shape[0], shape[1], shape[2], nx, ny);
  printf("\"steps\": %d, \"samples_s\": [", steps);
  for (int k = 0; k < samples; ++k) printf("%s%.4e", k == 0 ? "" : ", ", seconds[k]);
  printf("]}\n");
  fflush(stdout);
}

int main(int argc, char** argv) {
  int steps = 100, samples = 5, checks = 0;
  for (int k = 1; k < argc; ++k) {
    const int value = k + 1 < argc ? atoi(argv[k + 1]) : 0;
    if (strcmp(argv[k], "--nx") == 0) nx = value;
    if (strcmp(argv[k], "--ny") == 0) ny = value;
    if (strcmp(argv[k], "--steps") == 0) steps = value;
    if (strcmp(argv[k], "--samples") == 0) samples = value;
    if (strcmp(argv[k], "--check") == 0) checks = 1;
  }
  start("am_stencil");
  if (shape[2] != 1) fail("start", "the torus has a third axis; set ONSTREAM_TORUS, such as 2x2x1");
  if (nx < 4 || ny < 4 || nx % 2 != 0 || ny % 2 != 0)
    fail("start", "tiles have an even number of cells a side, 4 or more");
  if (steps < 1 || samples < 1 || samples > MOST_SAMPLES) fail("start", "1 or more steps, 1 to 1000 samples");
  const char* const why = cells_open(nx, ny, memory_of("device", 16));
  if (why != NULL) fail("cells", why);
  measure(DIRECT, steps, samples, checks);
  measure(BOUNCE, steps, samples, checks);
  end();
  return 0;
}
