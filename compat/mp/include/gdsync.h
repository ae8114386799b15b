/* libgdsync's header: programs written for libmp include it, and use nothing of it. */
#ifndef ONSTREAM_GDSYNC_H
#define ONSTREAM_GDSYNC_H
#include <cuda.h>
#endif
