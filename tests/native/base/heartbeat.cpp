// Time that the process stands still does not count for deadlines.
#include "onstream/base/heartbeat.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>

#include "onstream/base/clock.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/device/kernel/wait.hpp"
#include "support/check.hpp"
#include "support/sanitizer.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kStopNs = 4 * kSecondNs;

// Runs body() in a forked child, which it may stop: it goes on kStopNs later. Its exit status, or 128 and the signal.
template <class Body>
int in_a_stopped_child(const Body& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  CHECK(::waitpid(child, &status, WUNTRACED) == child);
  if (WIFSTOPPED(status)) {
    const std::uint64_t since = now_ns();
    while (now_ns() - since < kStopNs) ::usleep(10'000);
    ::kill(child, SIGCONT);
    CHECK(::waitpid(child, &status, 0) == child);
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Waits until the heart has beaten once more.
void await_beat(const std::uint64_t& word) {
  const std::uint64_t before = HostGroup::load_acquire(&word);
  while (HostGroup::load_acquire(&word) == before) ::usleep(1000);
}

}  // namespace

CASE(a_deadline_does_not_count_the_time_that_the_process_is_stopped) {
  const int status = in_a_stopped_child([] {
    const auto heart = Heartbeat::of_process();
    std::uint64_t words[2] = {};
    const std::uint64_t& word = words[0];
    const auto beats = heart->beat_in(words);
    await_beat(word);
    const Deadline deadline(3);
    const std::uint64_t lived = lived_ns();
    const std::uint64_t began = now_ns();
    ::raise(SIGSTOP);
    if (now_ns() - began < kStopNs / 2) return 1;      // it was stopped,
    if (lived_ns() - lived > 2 * kSecondNs) return 2;  // which the heart need not have seen yet,
    if (deadline.passed() || deadline.left_s() < 1) return 3;
    await_beat(word);
    if (lived_ns() - lived > 2 * kSecondNs) return 4;  // and has seen now
    while (!deadline.passed()) ::usleep(1000);         // the time behind it counts
    return 0;
  });
  CHECK(status == 0);
}

CASE(a_kernel_that_waits_gets_its_whole_deadline_behind_a_stop) {
  const int status = in_a_stopped_child([] {
    const auto heart = Heartbeat::of_process();
    std::uint64_t words[3] = {};  // the awake words, the abort word
    const auto beats = heart->beat_in(words);
    await_beat(words[0]);
    WaitView view;
    view.timeout_ns = 2 * kSecondNs;
    view.abort = &words[2];
    view.awake = 2;
    std::uint64_t resumed = 0;
    const Status waited = wait_until(HostGroup(0, 1), view, [&] {
      if (resumed == 0) {
        ::raise(SIGSTOP);
        resumed = now_ns();
      }
      return false;
    });
    if (waited != Status::timeout) return 1;
    return now_ns() - resumed >= 2 * kSecondNs - kSecondNs / 5 ? 0 : 2;
  });
  CHECK(status == 0);
}

CASE(a_kernel_that_waits_in_a_process_that_runs_gives_up_at_its_deadline) {
  const auto heart = Heartbeat::of_process();
  std::uint64_t words[3] = {};
  const auto beats = heart->beat_in(words);
  WaitView view;
  view.timeout_ns = kSecondNs / 5;
  view.abort = &words[2];
  view.awake = 2;
  const std::uint64_t began = now_ns();
  CHECK(wait_until(HostGroup(0, 1), view, [] { return false; }) == Status::timeout);
  CHECK(now_ns() - began >= view.timeout_ns);
}

CASE(stops_that_come_again_and_again_prolong_a_wait_by_what_they_took) {
  std::uint64_t words[3] = {};
  WaitView view;
  view.timeout_ns = kSecondNs / 5;
  view.abort = &words[2];
  view.awake = 2;
  words[0] = 1;  // as if it had just been continued, all the time
  words[1] = kSecondNs / 2;
  const std::uint64_t began = now_ns();
  CHECK(wait_until(HostGroup(0, 1), view, [] { return false; }) == Status::timeout);
  const std::uint64_t waited = now_ns() - began;
  CHECK(waited >= view.timeout_ns + words[1] && waited < 20 * kSecondNs);
}

CASE(without_a_heartbeat_time_is_that_of_the_clock) {
  const std::uint64_t before = now_ns();
  const std::uint64_t lived = lived_ns();
  CHECK(lived >= before && lived <= now_ns());
}

CASE(a_forked_child_has_a_heart_of_its_own) {
  if (kThreadSanitizer) SKIP("the thread sanitizer starts no threads in a forked child of several");
  const auto heart = Heartbeat::of_process();
  const int status = in_a_stopped_child([] {
    const auto mine = Heartbeat::of_process();
    std::uint64_t words[2] = {};
    const auto beats = mine->beat_in(words);
    await_beat(words[0]);  // SIGALRM else
    return 0;
  });
  CHECK(status == 0);
}

int main(int argc, char** argv) {
  ::alarm(50);
  return run(argc, argv);
}
