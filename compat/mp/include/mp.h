/* libmp's interface, over onstream. Programs written for libmp compile with it as they are; see docs/libmp.md.
 *
 * mp_init is here, in the header, so that the library itself knows no MPI: one libonstream_mp serves any. MPI is used
 * to bring the ranks together, and for nothing after that.
 */
#ifndef ONSTREAM_MP_H
#define ONSTREAM_MP_H

#include <cuda.h>
#include <cuda_runtime.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "mp/calls.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over `comm`. `peers` are the ranks of it that this one talks to; itself is allowed. The GPU is the calling
 * thread's current one; gpu_id counts only where there is none. `flags` chose where libmp kept its queues: ignored. */
static inline int mp_init(MPI_Comm comm, int* peers, int count, int flags, int gpu_id) {
  enum { TEXTS = 2 * ONSTREAM_MP_TEXT }; /* of a rank: its host, and why it cannot start */
  struct onstream_mp_start start;
  char mine[TEXTS];
  char meeting[ONSTREAM_MP_TEXT];
  char* all;
  int rank, refused = 0;
  (void)flags;
  memset(&start, 0, sizeof start);
  if (MPI_Comm_rank(comm, &start.rank) != MPI_SUCCESS) return MP_FAILURE;
  if (MPI_Comm_size(comm, &start.size) != MPI_SUCCESS) return MP_FAILURE;
  start.peers = peers;
  start.peer_count = count;
  start.device = gpu_id;
  if (cudaGetDevice(&start.device) != cudaSuccess) start.device = gpu_id;

  all = (char*)malloc((size_t)start.size * TEXTS);
  if (all == NULL) return MP_FAILURE;
  onstream_mp_host(mine);
  onstream_mp_refusal(&start, mine + ONSTREAM_MP_TEXT);
  if (MPI_Allgather(mine, TEXTS, MPI_CHAR, all, TEXTS, MPI_CHAR, comm) != MPI_SUCCESS) {
    free(all);
    return MP_FAILURE;
  }
  for (rank = 0; rank < start.size; ++rank) {
    const char* theirs = all + (size_t)rank * TEXTS;
    if (theirs[ONSTREAM_MP_TEXT] != 0) {
      onstream_mp_refused(rank, theirs + ONSTREAM_MP_TEXT);
      refused = 1;
    }
    if (strncmp(theirs, mine, ONSTREAM_MP_TEXT) != 0) continue;
    if (rank < start.rank) ++start.local_rank;
    ++start.local_size;
  }
  free(all);
  if (refused) return MP_FAILURE; /* on every rank: nobody waits for one that does not come */

  memset(meeting, 0, sizeof meeting);
  if (start.rank == 0) onstream_mp_meeting(meeting, start.local_size == start.size);
  if (MPI_Bcast(meeting, ONSTREAM_MP_TEXT, MPI_CHAR, 0, comm) != MPI_SUCCESS) return MP_FAILURE;
  start.meeting = meeting;
  return onstream_mp_begin(&start);
}

#ifdef __cplusplus
}
#endif
#endif
