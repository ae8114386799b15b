#include "onstream/bootstrap/socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>

#include "onstream/base/error.hpp"

namespace onstream {
namespace {

constexpr int kBacklog = 1024;  // the kernel lowers it to its own limit
constexpr std::string_view kUnixPrefix = "unix:";

// One place that a socket may be bound or connected to.
struct SocketAddress {
  int family = AF_UNSPEC;
  sockaddr_storage address{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

SocketAddress abstract_place(const std::string& address) {
  const std::string name = address.substr(kUnixPrefix.size());
  sockaddr_un place{};
  // A leading zero byte makes the name abstract; the kernel removes it with the last socket.
  require(!name.empty() && name.size() < sizeof(place.sun_path), "address '", address, "' needs a name of 1 to ",
          sizeof(place.sun_path) - 1, " characters after unix:");
  place.sun_family = AF_UNIX;
  std::memcpy(place.sun_path + 1, name.data(), name.size());
  SocketAddress result;
  result.family = AF_UNIX;
  result.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  std::memcpy(&result.address, &place, sizeof(place));
  return result;
}

SocketAddress every_address(int family, int port) {
  SocketAddress place;
  place.family = family;
  if (family == AF_INET6) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    any.sin6_port = htons(static_cast<std::uint16_t>(port));
    place.bytes = sizeof(any);
    std::memcpy(&place.address, &any, sizeof(any));
  } else {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    any.sin_port = htons(static_cast<std::uint16_t>(port));
    place.bytes = sizeof(any);
    std::memcpy(&place.address, &any, sizeof(any));
  }
  return place;
}

// Empty, and why, when the name cannot be resolved.
std::vector<SocketAddress> places_of(const Endpoint& endpoint, std::string& why) {
  if (endpoint.is_unix()) return {abstract_place(endpoint.address)};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = concat(endpoint.port);
  const int code = ::getaddrinfo(endpoint.address.c_str(), port.c_str(), &hints, &found);
  if (code != 0) {
    why = concat("the name cannot be resolved: ", resolver_text(code));
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<SocketAddress> places;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress place;
    place.family = one->ai_family;
    place.bytes = one->ai_addrlen;
    std::memcpy(&place.address, one->ai_addr, one->ai_addrlen);
    places.push_back(place);
  }
  return places;
}

Fd open_socket(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) fail_errno("cannot open a socket (is the limit of open files, ulimit -n, reached?)");
  return socket;
}

// Small control messages must not wait for each other. Fails on Unix-domain sockets, which have no such delay.
void send_at_once(const Fd& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int bound_port(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
    fail_errno("cannot read the port of a listening socket");
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

// A client that tries a port of the ephemeral range before anyone listens may be given that very port and so be
// connected to itself.
bool connected_to_itself(const Fd& socket) {
  sockaddr_storage mine{};
  sockaddr_storage theirs{};
  socklen_t my_bytes = sizeof(mine);
  socklen_t their_bytes = sizeof(theirs);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&mine), &my_bytes) != 0) return false;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&theirs), &their_bytes) != 0) return false;
  if (mine.ss_family == AF_UNIX) return false;
  return my_bytes == their_bytes && std::memcmp(&mine, &theirs, my_bytes) == 0;
}

Fd connect_to(const SocketAddress& place, Deadline deadline, std::string& why) {
  Fd socket = open_socket(place.family);
  send_at_once(socket);
  int error = ::connect(socket.get(), place.get(), place.bytes) == 0 ? 0 : errno;
  if (error == EINPROGRESS || error == EINTR) {
    if (!wait_for(socket, POLLOUT, deadline)) {
      why = "no answer";
      socket.reset();
      errno = ETIMEDOUT;
      return Fd();
    }
    socklen_t bytes = sizeof(error);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  }
  if (error != 0) {
    why = error_text(error);
    socket.reset();
    errno = error;
    return Fd();
  }
  if (connected_to_itself(socket)) {
    why = "nobody listens yet";
    socket.reset();
    errno = ECONNREFUSED;
    return Fd();
  }
  return socket;
}

// Invalid, and errno, if the system does not give the place.
Fd listening(Endpoint& endpoint, const SocketAddress& place) {
  Fd socket(::socket(place.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return socket;
  const int on = 1;
  // A world may be made again on the port of one just destroyed, whose connections linger in TIME_WAIT.
  if (!endpoint.is_unix()) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(socket.get(), place.get(), place.bytes) == 0 && ::listen(socket.get(), kBacklog) == 0) {
    if (!endpoint.is_unix() && endpoint.port == 0) endpoint.port = bound_port(socket);
    return socket;
  }
  const int error = errno;
  socket.reset();
  errno = error;
  return socket;
}

}  // namespace

std::string Endpoint::describe() const { return is_unix() ? address : concat(address, " port ", port); }

Fd listen_near(Endpoint& endpoint) {
  std::string why;
  const std::vector<SocketAddress> places = places_of(endpoint, why);
  require(places.size() == 1, "'", endpoint.address, "' is no number of an interface");
  return listening(endpoint, places.front());
}

Fd listen_at(Endpoint& endpoint, ListenScope scope) {
  std::string why;
  std::vector<SocketAddress> places = places_of(endpoint, why);
  if (places.empty()) fail(ErrorCode::system, "rank 0 cannot listen at ", endpoint.describe(), ": ", why);
  if (!endpoint.is_unix() && scope == ListenScope::any_host)
    places = {every_address(places.front().family, endpoint.port)};
  for (const SocketAddress& place : places) {
    Fd socket = listening(endpoint, place);
    if (socket.valid() || errno == EADDRINUSE) return socket;
  }
  fail_errno(concat("rank 0 cannot listen at ", endpoint.describe(),
                    "; ONSTREAM_ADDRESS must name the machine that rank 0 runs on"));
}

void renew_credentials(const Fd& listener) {
  if (::listen(listener.get(), kBacklog) != 0) fail_errno("cannot listen again");  // takes them anew: unix(7)
}

Fd connect_once(const Endpoint& endpoint, Deadline deadline, std::string& why) {
  for (const SocketAddress& place : places_of(endpoint, why)) {
    Fd socket = connect_to(place, deadline, why);
    if (socket.valid()) return socket;
  }
  return Fd();
}

Fd accept_one(const Fd& listener) {
  Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.valid()) send_at_once(socket);
  return socket;
}

std::string local_number(const Fd& socket) {
  sockaddr_storage mine{};
  socklen_t bytes = sizeof(mine);
  std::array<char, NI_MAXHOST> text{};
  const auto* address = reinterpret_cast<const sockaddr*>(&mine);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&mine), &bytes) != 0 || mine.ss_family == AF_UNIX ||
      ::getnameinfo(address, bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return text.data();
}

void expect_silence(const Fd& socket, double limit_s) {
  const auto milliseconds = static_cast<unsigned>(std::min(limit_s * 1e3, 1e9));
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds));
  // Lost bytes are sent again after 0.2, 0.4, 0.6 s, and not 0.2, 0.6, 1.4 s, so that a short outage is soon over. The
  // kernel does so where a loss ends the slow start, as it does with reno, which every kernel has, and not with bbr.
  constexpr std::string_view kReno = "reno";
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof(on));
}

void end_writing(const Fd& socket) { ::shutdown(socket.get(), SHUT_WR); }

Credentials credentials_of(const Fd& socket) {
  ucred found{};
  socklen_t bytes = sizeof(found);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &found, &bytes) != 0)
    fail_errno("cannot read who is at the other end of a Unix-domain socket");
  return {found.uid, found.pid};
}

int milliseconds_left(Deadline deadline, int at_most_ms) {
  return static_cast<int>(std::min(std::ceil(deadline.left_s() * 1e3), static_cast<double>(at_most_ms)));
}

int poll_some(std::vector<pollfd>& polled, int timeout_ms) {
  const int ready = ::poll(polled.data(), polled.size(), timeout_ms);
  if (ready < 0 && errno != EINTR) fail_errno("cannot wait for sockets (poll)");
  if (ready < 0) {
    for (pollfd& one : polled) one.revents = 0;
    return 0;
  }
  return ready;
}

bool wait_for(const Fd& socket, short events, Deadline deadline) {
  std::vector<pollfd> polled = {{socket.get(), events, 0}};
  while (true) {
    const int left_ms = milliseconds_left(deadline, 1000);
    if (poll_some(polled, left_ms) > 0) return true;
    if (deadline.passed()) return false;
  }
}

void send_all(const Fd& socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket, POLLOUT, deadline))
        fail(ErrorCode::timeout, "a connection took no bytes before the deadline, ", bytes.size(), " B were left");
    } else if (errno != EINTR) {
      fail(ErrorCode::closed, "the connection is gone: ", error_text(errno));
    }
  }
}

Received receive_some(const Fd& socket, std::string& bytes) {
  constexpr std::size_t kChunkBytes = std::size_t{64} << 10;
  const std::size_t before = bytes.size();
  bytes.resize(before + kChunkBytes);
  const ssize_t got = ::recv(socket.get(), bytes.data() + before, kChunkBytes, 0);
  bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got > 0) return Received::some;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Received::nothing_yet;
  return Received::end;
}

Fd make_waker() {
  Fd waker(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!waker.valid()) fail_errno("cannot make an eventfd (is the limit of open files, ulimit -n, reached?)");
  return waker;
}

void wake(const Fd& waker) {
  const std::uint64_t one = 1;
  // It can only fail with the counter full, and then the thread is already being woken.
  [[maybe_unused]] const ssize_t written = ::write(waker.get(), &one, sizeof(one));
}

void drain(const Fd& waker) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(waker.get(), &count, sizeof(count));
}

}  // namespace onstream
