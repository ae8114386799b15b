/* The place of the header under its old name. */
#include <shmem.h>
