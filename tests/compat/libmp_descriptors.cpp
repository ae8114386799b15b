// Descriptors of libmp's kernel-initiated communication, with the host in the kernel's place: it stores the doorbells,
// polls the semaphores and sets the flags, which lie in memory that both can access. See libmp.h.
#include "libmp.h"

#include <initializer_list>

#include "mp/descriptors.h"

namespace {

void ring(const mp::mlx5::send_desc_t& send) {
  __atomic_store_n(send.dbrec.ptr, send.dbrec.value, __ATOMIC_RELEASE);
  __atomic_store_n(send.db.ptr, send.db.value, __ATOMIC_RELEASE);
}

bool is_complete(const mp::mlx5::wait_desc_t& wait) {
  CHECK(wait.sema_cond == gdsync::WAIT_EQ);
  return __atomic_load_n(wait.sema.ptr, __ATOMIC_ACQUIRE) == wait.sema.value;
}

void await(const mp::mlx5::wait_desc_t& wait) { OK(mp_wait32(wait.sema.ptr, wait.sema.value, MP_WAIT_EQ)); }

void signal(const mp::mlx5::wait_desc_t& wait) { __atomic_store_n(wait.flag.ptr, wait.flag.value, __ATOMIC_RELEASE); }

void sends_start_at_their_doorbell_and_waits_see_the_end() {
  constexpr int kCount = 10;
  for (int kind = 0; kind < KINDS; ++kind) {
    for (const int bytes : {1, 4000, 100000}) {
      buffer b = take(kind, static_cast<size_t>(2 * kCount * bytes), 11 + rank);
      mp_request_t sends[kCount];
      mp_request_t receives[kCount];
      mp::mlx5::send_desc_t start[kCount];
      mp::mlx5::wait_desc_t sent[kCount];
      mp::mlx5::wait_desc_t came[kCount];
      for (int i = 0; i < kCount; ++i) {
        unsigned char* out = b.data + static_cast<size_t>(i) * static_cast<size_t>(bytes);
        unsigned char* in = out + static_cast<size_t>(kCount) * static_cast<size_t>(bytes);
        OK(mp_send_prepare(out, bytes, 1 - rank, &b.reg, &sends[i]));
        OK(mp::mlx5::get_descriptors(&start[i], &sends[i]));
        OK(mp::mlx5::get_descriptors(&sent[i], &sends[i]));
        OK(mp_irecv(in, bytes, 1 - rank, &b.reg, &receives[i]));
        OK(mp::mlx5::get_descriptors(&came[i], &receives[i]));
      }
      barrier();
      CHECK(!is_complete(sent[0]) && !is_complete(came[0]));
      barrier();
      for (int i = 0; i < kCount; ++i) {
        if (rank == 0) ring(start[i]);
        await(came[i]);
        if (rank == 1) ring(start[i]);
        await(sent[i]);
        CHECK(mp_progress_all(1, &sends[i]) == 0);  // the flag is not set
        signal(sent[i]);
        signal(came[i]);
      }
      OK(mp_wait_all(kCount, sends));
      OK(mp_wait_all(kCount, receives));
      const size_t half = b.bytes / 2;
      CHECK(all_are(&b, half, half, 11 + 1 - rank));
      drop(&b);
    }
  }
}

void descriptors_of_the_wrong_requests_are_refused() {
  buffer b = take(PINNED, 2, 0);
  mp_request_t send;
  mp_request_t receive;
  mp::mlx5::send_desc_t start;
  mp::mlx5::wait_desc_t wait;
  mp::mlx5::isem32_t word;
  uint32_t own = 3;
  OK(mp_send_prepare(b.data, 1, 1 - rank, &b.reg, &send));
  OK(mp_irecv(b.data + 1, 1, 1 - rank, &b.reg, &receive));
  CHECK(mp::mlx5::get_descriptors(&start, &receive) == MP_FAILURE);
  CHECK(mp::mlx5::get_descriptors(&wait, &send) == MP_FAILURE);
  CHECK(mp::mlx5::get_descriptors(&word, nullptr, 0) == MP_FAILURE);
  OK(mp::mlx5::get_descriptors(&word, &own, 7));
  CHECK(word.ptr == &own && word.value == 7);
  OK(mp::mlx5::get_descriptors(&start, &send));
  CHECK(mp::mlx5::get_descriptors(&start, &send) == MP_FAILURE);
  ring(start);
  OK(mp_wait(&send));
  OK(mp_wait(&receive));
  drop(&b);
}

// Nobody waits for such a put, so its doorbell is its own until it has been rung and the put has ended.
void nowait_puts_start_at_doorbells_of_their_own() {
  constexpr int kPuts = 8;
  constexpr size_t kEach = 3000;
  buffer b = take(PINNED, 2 * kPuts * kEach, 30 + rank);
  mp_window_t window;
  mp::mlx5::send_desc_t start[kPuts];
  mp_request_t puts[kPuts];
  mp_request_t told;
  OK(mp_window_create(b.data, b.bytes, &window));
  for (int i = 0; i < kPuts; ++i) {
    const size_t offset = static_cast<size_t>(i) * kEach;
    OK(mp_put_prepare(b.data + offset, static_cast<int>(kEach), &b.reg, 1 - rank, kPuts * kEach + offset, &window,
                      &puts[i], MP_PUT_NOWAIT));
    OK(mp::mlx5::get_descriptors(&start[i], &puts[i]));
    for (int j = 0; j < i; ++j) CHECK(start[j].db.ptr != start[i].db.ptr);
  }
  barrier();
  CHECK(all_are(&b, kPuts * kEach, kPuts * kEach, 30 + rank));  // nobody has rung
  barrier();
  for (const auto& one : start) ring(one);
  buffer word = take(PINNED, 2, 0);
  mp_request_t heard;
  OK(mp_irecv(word.data, 1, 1 - rank, &word.reg, &heard));
  OK(mp_isend(word.data + 1, 1, 1 - rank, &word.reg, &told));
  OK(mp_wait(&heard));
  OK(mp_wait(&told));
  CHECK(all_are(&b, kPuts * kEach, kPuts * kEach, 30 + 1 - rank));
  barrier();
  OK(mp_window_destroy(&window));
  drop(&b);
  drop(&word);
}

// The stream of the doorbell is not left waiting for it.
void a_send_that_cannot_start_stays_prepared() {
  constexpr int kBytes = 16 * PAGE;
  buffer b = take(PLAIN, kBytes, 50 + rank);
  mp_request_t request;
  if (rank == 0) {
    mp::mlx5::send_desc_t start;
    OK(mp_send_prepare(b.data, kBytes, 1, &b.reg, &request));
    unmap(&b);
    CHECK(mp::mlx5::get_descriptors(&start, &request) == MP_FAILURE);
    CHECK(mp_wait(&request) == EINVAL);  // not posted
    map_again(&b, 50);
    OK(mp::mlx5::get_descriptors(&start, &request));
    ring(start);
  } else {
    OK(mp_irecv(b.data, kBytes, 0, &b.reg, &request));
  }
  OK(mp_wait(&request));
  CHECK(all_are(&b, 0, kBytes, 50));
  drop(&b);
}

// Its bytes are taken during the call, also from device memory; only a GPU has a stream that could be in the way.
void an_inline_put_does_not_wait_for_a_doorbell() {
  constexpr int kBytes = 8;
  buffer b = take(DEVICE, 4 * kBytes, 60 + rank);
  mp_window_t window;
  mp_request_t send;
  mp_request_t receive;
  mp_request_t put;
  mp::mlx5::send_desc_t start;
  OK(mp_window_create(b.data, b.bytes, &window));
  OK(mp_irecv(b.data + kBytes, kBytes, 1 - rank, &b.reg, &receive));
  OK(mp_send_prepare(b.data, kBytes, 1 - rank, &b.reg, &send));
  OK(mp::mlx5::get_descriptors(&start, &send));
  const double begin = MPI_Wtime();
  OK(mp_iput(b.data, kBytes, &b.reg, 1 - rank, size_t{2} * kBytes, &window, &put, MP_PUT_INLINE));
  CHECK(MPI_Wtime() - begin < 15);  // and not the deadline, 30 s
  barrier();
  ring(start);
  OK(mp_wait(&send));
  OK(mp_wait(&receive));
  OK(mp_wait(&put));
  barrier();
  CHECK(all_are(&b, kBytes, size_t{2} * kBytes, 60 + 1 - rank));
  barrier();
  OK(mp_window_destroy(&window));
  drop(&b);
}

#define CASE(name) {#name, name}
// clang-format off: pytest reads one a line
const test_case kCases[] = {
    CASE(sends_start_at_their_doorbell_and_waits_see_the_end),
    CASE(descriptors_of_the_wrong_requests_are_refused),
    CASE(nowait_puts_start_at_doorbells_of_their_own),
    CASE(a_send_that_cannot_start_stays_prepared),
    CASE(an_inline_put_does_not_wait_for_a_doorbell),
};
// clang-format on

}  // namespace

int main(int argc, char** argv) {
  return run_case(argc, argv, kCases, static_cast<int>(sizeof kCases / sizeof kCases[0]));
}
