// Every PE stores its number into its right neighbour's memory: oshcc shmem_ring.c -o ring && oshrun -n 4 ./ring
#include <shmem.h>
#include <stdio.h>

static int from_left = -1;  // a static variable is symmetric

int main(void) {
  shmem_init();
  const int pe = shmem_my_pe(), size = shmem_n_pes();
  shmem_int_p(&from_left, pe, (pe + 1) % size);
  shmem_barrier_all();  // behind it every store has arrived
  printf("PE %d of %d has the %d of its left neighbour\n", pe, size, from_left);
  shmem_finalize();
}
