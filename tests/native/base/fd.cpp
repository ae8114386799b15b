// Descriptors with one owner: their numbers, and the data read through them.
#include "onstream/base/fd.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "support/check.hpp"

using onstream::Fd;

namespace {

// In a child, which may close any descriptor.
bool holds_in_a_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
bool closes_on_exec(const Fd& fd) { return (::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0; }

}  // namespace

CASE(no_descriptor_has_the_number_of_a_standard_one) {
  CHECK(holds_in_a_child([] {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
    for (int turn = 0; turn < 3; ++turn) {
      const Fd one(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const Fd other = onstream::duplicate(one);
      if (one.get() <= STDERR_FILENO || other.get() <= STDERR_FILENO) return false;
      if (!closes_on_exec(one) || !closes_on_exec(other)) return false;
    }
    return !is_open(STDIN_FILENO) && !is_open(STDOUT_FILENO) && !is_open(STDERR_FILENO);
  }));
}

CASE(a_descriptor_is_closed_with_its_owner) {
  int number = -1;
  {
    const Fd one(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    number = one.get();
    CHECK(is_open(number));
  }
  CHECK(!is_open(number));
}

CASE(what_the_system_has_not_given_is_not_valid) {
  const Fd none(::open("/no/such/file", O_RDONLY | O_CLOEXEC));
  CHECK(!none.valid() && errno == ENOENT);
}

CASE(a_file_is_read_whole) {
  CHECK(onstream::contents_of("/proc/self/comm") == "test_fd\n");
  CHECK(onstream::contents_of("/proc/self/exe").size() > 10'000);
  CHECK(onstream::contents_of("/no/such/file").empty());
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
