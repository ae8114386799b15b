/* The runtime calls of UPC 1.3 for C and C++, over onstream: one shared space of all threads, of host and device
 * memory.
 *
 * A UPC thread is a process here; `onstream run -n 4 ./prog` starts four. The first call of each joins the others, and
 * the end of main ends the thread once all are there. One thread of a process makes the calls. docs/upc.md says more.
 */
#ifndef ONSTREAM_UPC_H
#define ONSTREAM_UPC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define ONSTREAM_UPC_NORETURN [[noreturn]]
#else
#define ONSTREAM_UPC_NORETURN _Noreturn
#endif

/* A pointer to shared. All zero: null. May itself lie in shared memory and be used by any thread. */
typedef struct {
  uint64_t addr;   /* where in the thread's part of the shared space; whether host or device memory is in it */
  uint32_t thread; /* that the place has affinity to */
  uint32_t phase;  /* elements from the begin of its block */
} upc_ptr_t;

#ifdef __cplusplus
#define UPC_NULL (upc_ptr_t{0, 0, 0})
#else
#define UPC_NULL ((upc_ptr_t){0, 0, 0})
#endif
#define UPC_MAX_BLOCK_SIZE 4294967295u

/* --- who --- */
int upc_mythread(void);
int upc_threads(void);
#define MYTHREAD upc_mythread()
#define THREADS upc_threads()
/* Ends all threads with that status. */
ONSTREAM_UPC_NORETURN void upc_global_exit(int status);

/* --- where this thread's next allocations live: in host memory (at the start), or in its device's --- */
void upc_on_device(void);
void upc_off_device(void);

/* --- allocation --- */
/* nblocks blocks of nbytes, dealt to the threads in turn from thread 0 on; the pointer is to the first. Null, with a
 * line that says why, where there is no room; null for 0 bytes. What the memory holds is not known. */
upc_ptr_t upc_all_alloc(size_t nblocks, size_t nbytes);    /* collective; all get the same */
upc_ptr_t upc_global_alloc(size_t nblocks, size_t nbytes); /* by one thread alone */
upc_ptr_t upc_alloc(size_t nbytes);                        /* nbytes of this thread, by it alone */
/* What any of the three gave; null is free already. */
void upc_free(upc_ptr_t ptr);     /* by one thread, any */
void upc_all_free(upc_ptr_t ptr); /* collective; once all are there */

/* --- pointers --- */
size_t upc_threadof(upc_ptr_t ptr);
size_t upc_phaseof(upc_ptr_t ptr);
size_t upc_addrfield(upc_ptr_t ptr);
upc_ptr_t upc_resetphase(upc_ptr_t ptr);
/* Of an object of totalsize bytes in blocks of nbytes: the bytes that threadid has. nbytes 0: all are thread 0's. */
size_t upc_affinitysize(size_t totalsize, size_t nbytes, size_t threadid);
/* Whether it points to device memory. */
int upc_is_on_device(upc_ptr_t ptr);
/* By which address this thread loads and stores the place itself; on a device, its kernels do. Null where they do not.
 */
void* upc_cast(upc_ptr_t ptr);
/* ptr + n as a pointer to shared [block] T, with sizeof(T) elem bytes and block elements a block; block 0: shared [] T.
 */
upc_ptr_t upc_ptr_add(upc_ptr_t ptr, size_t elem, size_t block, ptrdiff_t n);
/* to - from, in elements, of two pointers into one such array. */
ptrdiff_t upc_ptr_diff(upc_ptr_t to, upc_ptr_t from, size_t elem, size_t block);
static inline int upc_ptr_is_null(upc_ptr_t ptr) { return ptr.addr == 0; }
/* Whether they name one place; the phase does not count. */
static inline int upc_ptr_equal(upc_ptr_t a, upc_ptr_t b) {
  return a.addr == b.addr && (a.addr == 0 || a.thread == b.thread);
}

/* --- bytes; done when the call returns. What is shared lies with one thread --- */
void upc_memput(upc_ptr_t dst, const void* src, size_t n);
void upc_memget(void* dst, upc_ptr_t src, size_t n);
void upc_memcpy(upc_ptr_t dst, upc_ptr_t src, size_t n); /* the two may not overlap */
void upc_memset(upc_ptr_t dst, int c, size_t n);

/* --- order --- */
void upc_fence(void);
/* upc_barrier(), upc_notify(), upc_wait(), or each with a value, as upc_barrier(3): values that differ between threads,
 * or between a thread's notify and its wait, end the job. No value goes with any. */
#define upc_barrier(...) onstream_upc_barrier(#__VA_ARGS__[0] != 0, (__VA_ARGS__ + 0))
#define upc_notify(...) onstream_upc_notify(#__VA_ARGS__[0] != 0, (__VA_ARGS__ + 0))
#define upc_wait(...) onstream_upc_wait(#__VA_ARGS__[0] != 0, (__VA_ARGS__ + 0))
void onstream_upc_barrier(int has_value, int value);
void onstream_upc_notify(int has_value, int value);
void onstream_upc_wait(int has_value, int value);

/* --- locks: handles that any thread may use, in shared memory too; in the order in which threads asked --- */
typedef struct onstream_upc_lock upc_lock_t;
upc_lock_t* upc_all_lock_alloc(void);    /* collective; all get the same */
upc_lock_t* upc_global_lock_alloc(void); /* by one thread alone */
void upc_lock(upc_lock_t* ptr);
int upc_lock_attempt(upc_lock_t* ptr); /* 1: this thread has it now */
void upc_unlock(upc_lock_t* ptr);
void upc_lock_free(upc_lock_t* ptr);     /* by one thread, any; null: nothing */
void upc_all_lock_free(upc_lock_t* ptr); /* collective; once all are there */

#ifdef __cplusplus
}
#endif

#endif
