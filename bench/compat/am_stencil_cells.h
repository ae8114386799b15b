/* The cells of bench/compat/am_stencil.c: computed by the CPU (am_stencil_cells.c) or by kernels on two streams (.cu).
 *
 * A tile of nx x ny cells, twice: of this step and of the next. Edges are the cells that the neighbours need of it,
 * ghosts the cells that it needs of them, in arrays of their own, one for each side. */
#ifndef ONSTREAM_BENCH_AM_STENCIL_CELLS_H
#define ONSTREAM_BENCH_AM_STENCIL_CELLS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum side { WEST, EAST, SOUTH, NORTH, SIDES };

struct sides {
  double* of[SIDES];
};

/* Whether cells are computed by a device, beside the CPU. */
extern const int on_device;

/* `memory` is some of the device's, if there is one. Says why it fails, or null. */
const char* cells_open(int nx, int ny, const void* memory);
double* cells_array(size_t bytes); /* where cells are computed; null: there is no memory. Never freed. */
void cells_copy(void* to, const void* from, size_t bytes); /* from and to such memory; done when it returns */

void cells_load(const double* start); /* of this step */
void cells_first_edges(struct sides edges);
/* The cells along the edges of the next step, and its edges. */
void cells_boundary(struct sides ghosts, struct sides edges);
void cells_boundary_done(void);
void cells_bulk(void); /* all others */
void cells_bulk_done(void);
void cells_next(void); /* the next step is this one */
void cells_store(double* end);

#ifdef __cplusplus
}
#endif

#endif
