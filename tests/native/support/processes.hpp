// Other processes for tests: this program, started again.
//
//   Child        with one end of a socket, as `--child TEXT`; ended with the object
//   spawn_rank   as a rank of a job, as `--rank ROLE`; it learns its rank from ONSTREAM_*, as under a launcher
//
// The program's main() looks at its arguments first, and calls run_role() or its own function for a child.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "check.hpp"
#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/launch.hpp"
#include "sanitizer.hpp"

extern char** environ;

namespace onstream::test {

// At the head of a case that shares memory with other processes.
inline void needs_sight_of_other_processes() {
  if (kThreadSanitizer) SKIP("the thread sanitizer does not see in what order another process does things");
}

// Where a child finds its end of the socket.
constexpr int kChildSocket = 3;

// How long a test waits for another process: sanitizers on a busy machine; nothing waits for it unless it fails.
constexpr double kProcessPatienceS = 60;

// Starts /proc/self/exe. `environment` goes before this process's own.
inline pid_t start_again(std::vector<std::string> arguments, std::vector<std::string> environment,
                         const posix_spawn_file_actions_t* actions) {
  std::vector<char*> argument_words = {const_cast<char*>("/proc/self/exe")};
  for (std::string& one : arguments) argument_words.push_back(one.data());
  argument_words.push_back(nullptr);
  std::vector<char*> environment_words;
  for (std::string& one : environment) environment_words.push_back(one.data());
  for (char** one = environ; *one != nullptr; ++one) environment_words.push_back(*one);
  environment_words.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argument_words[0], actions, nullptr, argument_words.data(),  //
                                  environment_words.data());
  require(error == 0, "cannot start this program again: ", std::strerror(error));
  return pid;
}

// Returns the exit status, or 128 plus the signal. Kills a process that does not end in time.
inline int wait_for_exit(pid_t pid, double patience_s = kProcessPatienceS) {
  const Deadline deadline(patience_s);
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(pid, &status, deadline.passed() ? 0 : WNOHANG);
    if (ended == pid) break;
    if (ended < 0 && errno != EINTR) fail_errno("waitpid");
    if (deadline.passed()) ::kill(pid, SIGKILL);
    const timespec nap{0, 1'000'000};
    ::nanosleep(&nap, nullptr);
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class Child {
 public:
  explicit Child(const std::string& text) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) fail_errno("socketpair");
    socket_ = Fd(ends[0]);
    const Fd theirs(::fcntl(ends[1], F_DUPFD_CLOEXEC, kChildSocket + 1));  // dup2 onto itself would keep CLOEXEC
    ::close(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), kChildSocket);
    pid_ = start_again({"--child", text}, {}, &actions);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    (void)wait_for_exit(pid_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int socket() const { return socket_.get(); }

  // Waits for the child's word that it is done (say_done), and for its end.
  void finish() {
    pollfd readable{socket_.get(), POLLIN, 0};
    require(::poll(&readable, 1, static_cast<int>(kProcessPatienceS * 1000)) == 1, "the child did not answer");
    char word = 0;
    require(::recv(socket_.get(), &word, 1, 0) == 1 && word == 'k', "the child failed; see standard error");
    const int status = wait_for_exit(std::exchange(pid_, 0));
    require(status == 0, "the child ended with status ", status);
  }

 private:
  Fd socket_;
  pid_t pid_ = 0;
};

// The child's last word, and its exit status.
inline int say_done() {
  const char done = 'k';
  return ::send(kChildSocket, &done, 1, MSG_NOSIGNAL) == 1 ? 0 : 3;
}

inline pid_t spawn_rank(const std::string& role, const Launch& launch) {
  std::vector<std::string> environment = {concat("ONSTREAM_RANK=", launch.rank), concat("ONSTREAM_SIZE=", launch.size),
                                          "ONSTREAM_ADDRESS=" + launch.address, "ONSTREAM_SECRET=" + launch.secret};
  if (launch.port > 0) environment.push_back(concat("ONSTREAM_PORT=", launch.port));
  return start_again({"--rank", role}, std::move(environment), nullptr);
}

// Runs a rank process; returns its exit status.
inline int run_role(const std::map<std::string, std::function<void()>>& roles, const std::string& role) {
  try {
    roles.at(role)();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", role.c_str(), error.what());
    return 1;
  }
}

}  // namespace onstream::test
