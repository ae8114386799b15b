// The words by which a kernel starts and awaits communication itself: plain data, passed to it by value (C++).
//
// get_descriptors() hands out each; mp/device.cuh has the functions that kernels call with them. The words lie in
// pinned host memory that the GPU can access, and are taken back when the request is waited for by the host.
#pragma once

#include <stdint.h>

#include "mp/calls.h"

namespace gdsync {

// A word and the value to store there, or to find there.
struct isem32_t {
  uint32_t* ptr;
  uint32_t value;
};
struct isem64_t {
  uint64_t* ptr;
  uint64_t value;
};

enum wait_cond_t {
  WAIT_GEQ = 0,  // counts, also across a wrap
  WAIT_EQ,
  WAIT_AND,
  WAIT_NOR
};

}  // namespace gdsync

namespace mp {
namespace mlx5 {

typedef gdsync::isem32_t isem32_t;

// Starts a prepared send: first `dbrec` is stored, then `db`.
typedef struct send_desc {
  gdsync::isem32_t dbrec;
  gdsync::isem64_t db;
} send_desc_t;

// Completion of a send or receive: `sema` compares with its value under the condition. The kernel then stores `flag`,
// for which the host's wait for the request waits in turn.
typedef struct wait_desc {
  gdsync::wait_cond_t sema_cond;
  gdsync::isem32_t sema;
  gdsync::isem32_t flag;
} wait_desc_t;

// A word of the program's own that a kernel is to wait for, until it has counted up to `value`.
int get_descriptors(isem32_t* semaphore, uint32_t* word, uint32_t value);
// For a prepared send, which becomes posted: from now on the kernel starts it.
int get_descriptors(send_desc_t* send, mp_request_t* request);
// For a posted request.
int get_descriptors(wait_desc_t* wait, mp_request_t* request);

}  // namespace mlx5
}  // namespace mp
