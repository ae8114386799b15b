/* OpenSHMEM 1.5 for C and C++, over onstream.
 *
 * Compile with oshcc and start with oshrun; docs/openshmem.md says what the calls do here. */
#ifndef ONSTREAM_SHMEM_H
#define ONSTREAM_SHMEM_H

#include "shmem/types.h"

#include "shmem/setup.h"

#include "shmem/transfers.h"

#include "shmem/words.h"

#include "shmem/collectives.h"

#include "shmem/deprecated.h"

#include "shmem/complex_reductions.h"

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#include "shmem/generic.h"
#endif

#endif
