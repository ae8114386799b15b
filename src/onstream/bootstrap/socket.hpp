// Sockets: listening, connecting and waiting, the same for TCP and for Unix-domain sockets with abstract names.
//
// Every socket is non-blocking and closed on exec. An address is a host name or number, or "unix:NAME" for a name in
// the abstract namespace (one host; nothing on disk). Only the functions that take a Deadline block.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/fd.hpp"

namespace onstream {

struct Endpoint {
  std::string address;
  int port = 0;  // of TCP; not used by "unix:NAME"

  bool is_unix() const { return address.starts_with("unix:"); }
  std::string describe() const;  // "127.0.0.1 port 4711", "unix:job-12"
};

enum class ListenScope { this_host, any_host };

// Listens. TCP binds the address itself, or with ListenScope::any_host every address of the machine. Sets endpoint.port
// when it was 0. Returns an invalid Fd when the address is in use; throws system, with advice, for all else.
Fd listen_at(Endpoint& endpoint, ListenScope scope);

// Listens at one number of this host. Sets endpoint.port when it was 0. Returns an invalid Fd, and errno, when the
// system does not give it.
Fd listen_near(Endpoint& endpoint);

// Peers that connect from now on see the user that this process has now: it may have given up another one since.
void renew_credentials(const Fd& listener);

// One attempt at each of the addresses the name stands for. Returns an invalid Fd, and why in `why` and errno, when
// nobody accepts.
Fd connect_once(const Endpoint& endpoint, Deadline deadline, std::string& why);

// Invalid when nobody waits to be accepted, or, as errno tells, could not be.
Fd accept_one(const Fd& listener);

// The number of this end of a TCP connection; "" for another socket.
std::string local_number(const Fd& socket);
// A TCP connection that shall survive short outages: the kernel sends soon again, and gives the connection up when the
// other end has acknowledged nothing for so long.
void expect_silence(const Fd& socket, double limit_s);
// The other end reads its end of the stream after all that was written. This end still reads.
void end_writing(const Fd& socket);

// User id and process id at the other end of a Unix-domain socket, from the kernel.
struct Credentials {
  uid_t uid = 0;
  pid_t pid = 0;
};
Credentials credentials_of(const Fd& socket);

// Waits for any of `events`; false when the deadline passed.
bool wait_for(const Fd& socket, short events, Deadline deadline);
// poll() that survives signals; returns how many are ready. Negative timeouts are not allowed.
int poll_some(std::vector<pollfd>& polled, int timeout_ms);
// For poll(): the time left, rounded up, at most `at_most_ms`.
int milliseconds_left(Deadline deadline, int at_most_ms);

// Writes everything or throws: timeout, or closed when the other end is gone. For connection set-up and the store's
// client.
void send_all(const Fd& socket, std::string_view bytes, Deadline deadline);

enum class Received { some, nothing_yet, end };
// Reads the bytes that have come and appends them to `bytes`.
Received receive_some(const Fd& socket, std::string& bytes);

// An eventfd: another thread's way to end a poll().
Fd make_waker();
void wake(const Fd& waker);
void drain(const Fd& waker);

}  // namespace onstream
