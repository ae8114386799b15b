/* By the CPU, at once. */
#include "am_stencil_cells.h"

#include <stdlib.h>
#include <string.h>

const int on_device = 0;

static int nx, ny;
static double *now, *next;

const char* cells_open(int wide, int high, const void* memory) {
  (void)memory;
  nx = wide;
  ny = high;
  now = cells_array((size_t)nx * (size_t)ny * sizeof *now);
  next = cells_array((size_t)nx * (size_t)ny * sizeof *next);
  return now == NULL || next == NULL ? "there is no memory for the cells" : NULL;
}

double* cells_array(size_t bytes) { return calloc(1, bytes); }
void cells_copy(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
void cells_load(const double* start) { memcpy(now, start, (size_t)nx * (size_t)ny * sizeof *now); }
void cells_store(double* end) { memcpy(end, now, (size_t)nx * (size_t)ny * sizeof *now); }
void cells_boundary_done(void) {}
void cells_bulk_done(void) {}

void cells_next(void) {
  double* const swapped = now;
  now = next;
  next = swapped;
}

static void take_edges(const double* cells, struct sides edges) {
  for (int y = 0; y < ny; ++y) {
    edges.of[WEST][y] = cells[y * nx];
    edges.of[EAST][y] = cells[y * nx + nx - 1];
  }
  memcpy(edges.of[SOUTH], cells, (size_t)nx * sizeof *cells);
  memcpy(edges.of[NORTH], cells + (ny - 1) * nx, (size_t)nx * sizeof *cells);
}

void cells_first_edges(struct sides edges) { take_edges(now, edges); }

static double average(double west, double east, double south, double north) {
  return 0.25 * ((west + east) + (south + north));
}

static void compute(int x, int y, const struct sides* ghosts) {
  const double west = x > 0 ? now[y * nx + x - 1] : ghosts->of[WEST][y];
  const double east = x + 1 < nx ? now[y * nx + x + 1] : ghosts->of[EAST][y];
  const double south = y > 0 ? now[(y - 1) * nx + x] : ghosts->of[SOUTH][x];
  const double north = y + 1 < ny ? now[(y + 1) * nx + x] : ghosts->of[NORTH][x];
  next[y * nx + x] = average(west, east, south, north);
}

void cells_boundary(struct sides ghosts, struct sides edges) {
  for (int x = 0; x < nx; ++x) {
    compute(x, 0, &ghosts);
    compute(x, ny - 1, &ghosts);
  }
  for (int y = 1; y + 1 < ny; ++y) {
    compute(0, y, &ghosts);
    compute(nx - 1, y, &ghosts);
  }
  take_edges(next, edges);
}

void cells_bulk(void) {
  for (int y = 1; y + 1 < ny; ++y) {
    const double* const c = now + y * nx;
    double* const out = next + y * nx;
    for (int x = 1; x + 1 < nx; ++x) out[x] = average(c[x - 1], c[x + 1], c[x - nx], c[x + nx]);
  }
}
