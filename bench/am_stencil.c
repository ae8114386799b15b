/* A stencil over a 2-D torus of ranks by registered buffers alone, with and without the bounce copy.
 *
 *   ONSTREAM_TORUS=2x2x1 onstream run -n 4 am_stencil --nx 256 --ny 256 --steps 100 --samples 5 --memory device
 *
 * Each step computes the cells along the edges first, puts the edges into the neighbours' ghost cells, computes the
 * bulk meanwhile, and waits until its edges are sent and its ghost cells are written. `direct` puts from where the
 * edges were computed to where they are used; `bounce` copies them to a buffer for the network before, and from one
 * behind. Ghost cells and buffers are double, by the step's parity: a neighbour may be one step ahead.
 *
 * Both ways must give the same bits, and with --check those of a computation of the whole grid by one rank. Prints one
 * JSON line for each way, with the seconds a step of each sample. Cells are touched by the CPU: memory of a GPU is not
 * for them. */
#include "am_common.h"

enum { WEST, EAST, SOUTH, NORTH, SIDES, MOST_SAMPLES = 1000 };
enum way { DIRECT, BOUNCE };
static const char* const way_names[] = {"direct", "bounce"};

static int nx = 256, ny = 256;
static double *old_cells, *new_cells;
static double *edges[2][SIDES], *ghosts[2][SIDES];      /* by parity: computed from and to */
static double *outgoing[2][SIDES], *incoming[2][SIDES]; /* registered; of `direct` the same as the above */
static am_vaddr_t landing[2][SIDES];                    /* of the neighbours, where an edge of that side goes */
static int arrived[2], sent;

static int length_of(int side) { return side == WEST || side == EAST ? ny : nx; }
static size_t bytes_of(int side) { return (size_t)length_of(side) * sizeof(double); }
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

static double average(double west, double east, double south, double north) {
  return 0.25 * ((west + east) + (south + north));
}

static void compute_cell(int x, int y, double* const ghost[SIDES]) {
  const double* const c = old_cells;
  const double west = x > 0 ? c[y * nx + x - 1] : ghost[WEST][y];
  const double east = x + 1 < nx ? c[y * nx + x + 1] : ghost[EAST][y];
  const double south = y > 0 ? c[(y - 1) * nx + x] : ghost[SOUTH][x];
  const double north = y + 1 < ny ? c[(y + 1) * nx + x] : ghost[NORTH][x];
  new_cells[y * nx + x] = average(west, east, south, north);
}

static void compute_boundary(double* const ghost[SIDES]) {
  for (int x = 0; x < nx; ++x) {
    compute_cell(x, 0, ghost);
    compute_cell(x, ny - 1, ghost);
  }
  for (int y = 1; y + 1 < ny; ++y) {
    compute_cell(0, y, ghost);
    compute_cell(nx - 1, y, ghost);
  }
}

static void compute_bulk(void) {
  const double* const c = old_cells;
  for (int y = 1; y + 1 < ny; ++y) {
    for (int x = 1; x + 1 < nx; ++x) {
      const int at = y * nx + x;
      new_cells[at] = average(c[at - 1], c[at + 1], c[at - nx], c[at + nx]);
    }
  }
}

static void take_edges(const double* cells, double* const edge[SIDES]) {
  for (int y = 0; y < ny; ++y) {
    edge[WEST][y] = cells[y * nx];
    edge[EAST][y] = cells[y * nx + nx - 1];
  }
  memcpy(edge[SOUTH], cells, bytes_of(SOUTH));
  memcpy(edge[NORTH], cells + (ny - 1) * nx, bytes_of(NORTH));
}

static void put_edges(enum way way, int step) {
  const int parity = step % 2;
  sent = 0;
  for (int side = 0; side < SIDES; ++side) {
    if (way == BOUNCE) memcpy(outgoing[parity][side], edges[parity][side], bytes_of(side));
    must(am_put(link_, neighbour(side), port, step, AM_BLOCKING, 0, outgoing[parity][side], bytes_of(side),
                landing[parity][side]),
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
    memcpy(ghosts[parity][side], incoming[parity][side], bytes_of(side));
  }
}

static void start_cells(enum way way) {
  const ape_net_address_t self = ape_get_self_address(link_);
  for (int y = 0; y < ny; ++y) {
    for (int x = 0; x < nx; ++x) old_cells[y * nx + x] = first_value((int)self.s.x * nx + x, (int)self.s.y * ny + y);
  }
  take_edges(old_cells, edges[0]);
  put_edges(way, 0);
  wait_for_edges(way, 0);
}

static double run(enum way way, int steps) {
  start_cells(way);
  barrier();
  const double start_s = now_s();
  for (int step = 0; step < steps; ++step) {
    compute_boundary(ghosts[step % 2]);
    take_edges(new_cells, edges[(step + 1) % 2]);
    put_edges(way, step + 1);
    compute_bulk();
    wait_for_edges(way, step + 1);
    double* const swapped = old_cells;
    old_cells = new_cells;
    new_cells = swapped;
  }
  const double seconds = (now_s() - start_s) / steps;
  barrier();
  return seconds;
}

/* Memory of one way, registered and told to the neighbours: where the edge of a side goes is the other side's ghost. */
static void prepare(enum way way, const char* memory) {
  am_vaddr_t mine[2 * SIDES];
  static am_vaddr_t all[MOST_RANKS * 2 * SIDES];
  for (int parity = 0; parity < 2; ++parity) {
    for (int side = 0; side < SIDES; ++side) {
      double* const from = memory_of(memory, bytes_of(side));
      double* const to = memory_of(memory, bytes_of(side));
      outgoing[parity][side] = from;
      incoming[parity][side] = to;
      edges[parity][side] = way == DIRECT ? from : memory_of("plain", bytes_of(side));
      ghosts[parity][side] = way == DIRECT ? to : memory_of("plain", bytes_of(side));
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
      for (int x = 0; x < wide; ++x) {
        next[y * wide + x] = average(now[y * wide + (x + wide - 1) % wide], now[y * wide + (x + 1) % wide],
                                     now[(y + high - 1) % high * wide + x], now[(y + 1) % high * wide + x]);
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

int main(int argc, char** argv) {
  int steps = 100, samples = 5, checks = 0;
  const char* memory = "device";
  for (int k = 1; k < argc; ++k) {
    const char* const value = k + 1 < argc ? argv[k + 1] : "";
    if (strcmp(argv[k], "--nx") == 0) nx = atoi(value);
    if (strcmp(argv[k], "--ny") == 0) ny = atoi(value);
    if (strcmp(argv[k], "--steps") == 0) steps = atoi(value);
    if (strcmp(argv[k], "--samples") == 0) samples = atoi(value);
    if (strcmp(argv[k], "--memory") == 0) memory = value;
    if (strcmp(argv[k], "--check") == 0) checks = 1;
  }
  start("am_stencil");
  if (shape[2] != 1) fail("start", "the torus has a third axis; set ONSTREAM_TORUS, such as 2x2x1");
  if (nx < 2 || ny < 2 || nx % 2 != 0 || ny % 2 != 0)
    fail("start", "tiles have an even number of cells along each axis");
  if (steps < 1 || samples < 1 || samples > MOST_SAMPLES) fail("start", "1 or more steps, 1 to 1000 samples");
  const size_t cells = (size_t)nx * (size_t)ny * sizeof(double);
  double* answer = malloc(cells);
  old_cells = malloc(cells);
  new_cells = malloc(cells);
  if (answer == NULL || old_cells == NULL || new_cells == NULL) fail("start", "there is no memory for the cells");
  for (int way = DIRECT; way <= BOUNCE; ++way) {
    static double seconds[MOST_SAMPLES];
    prepare((enum way)way, memory);
    for (int k = 0; k < samples; ++k) seconds[k] = run((enum way)way, steps);
    if (way == DIRECT) memcpy(answer, old_cells, cells);
    if (memcmp(answer, old_cells, cells) != 0) fail("bounce", "the cells are not those of the direct way");
    if (checks) check(old_cells, steps);
    barrier();
    if (rank != 0) continue;
    printf("{\"case\": \"stencil\", \"way\": \"%s\", \"memory\": \"%s\", \"torus\": \"%ux%ux%u\", ", way_names[way],
           memory, shape[0], shape[1], shape[2]);
    printf("\"nx\": %d, \"ny\": %d, \"steps\": %d, \"bytes\": %zu, \"samples_s\": [", nx, ny, steps, bytes_of(SOUTH));
    for (int k = 0; k < samples; ++k) printf("%s%.4e", k == 0 ? "" : ", ", seconds[k]);
    printf("]}\n");
    fflush(stdout);
  }
  end();
  return 0;
}
