#include "onstream/bootstrap/mesh/mesh_link.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace onstream {
namespace {

// Room for one descriptor; nobody sends more with one frame.
union ControlBuffer {
  cmsghdr aligned;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

}  // namespace

void MeshLink::enqueue(std::string frame, Fd fd) { outgoing_.push_back({std::move(frame), std::move(fd), 0}); }

ssize_t MeshLink::send_front() {
  QueuedFrame& front = outgoing_.front();
  iovec part{front.bytes.data() + front.sent, front.bytes.size() - front.sent};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ControlBuffer control{};
  if (front.sent == 0 && front.fd.valid()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = front.fd.get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
}

bool MeshLink::write_some() {
  while (open() && !outgoing_.empty()) {
    QueuedFrame& front = outgoing_.front();
    const ssize_t sent = send_front();
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == ETOOMANYREFS)) return true;
    if (sent < 0) return false;
    written_ns_ = now_ns();
    front.sent += static_cast<std::size_t>(sent);
    front.fd.reset();
    if (front.sent == front.bytes.size()) outgoing_.pop_front();
  }
  return true;
}

Received MeshLink::read_some(int most_chunks) {
  constexpr std::size_t kChunkBytes = std::size_t{64} << 10;
  std::array<char, kChunkBytes> chunk;
  for (int i = 0; i < most_chunks; ++i) {
    iovec part{chunk.data(), chunk.size()};
    ControlBuffer control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return i == 0 ? Received::nothing_yet : Received::some;
    if (got <= 0) return Received::end;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && header->cmsg_type == SCM_RIGHTS) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
      received_fds_.emplace_back(fd);
    } else if ((message.msg_flags & MSG_CTRUNC) != 0) {
      received_fds_.emplace_back();  // the kernel had no number left for it; keep the others matched to their frames
    }
    reader_.feed(std::string_view(chunk.data(), static_cast<std::size_t>(got)));
  }
  return Received::some;
}

std::optional<MeshLink::ReceivedFrame> MeshLink::next() {
  std::optional<wire::Frame> frame = reader_.next();
  if (!frame) return std::nullopt;
  ReceivedFrame incoming{std::move(*frame), Fd()};
  if ((incoming.frame.flags & wire::kCarriesFd) != 0) {
    require(!received_fds_.empty(), "a frame announces a file descriptor that did not come");
    incoming.fd = std::move(received_fds_.front());
    received_fds_.pop_front();
  }
  return incoming;
}

void MeshLink::close() {
  socket_.reset();
  outgoing_.clear();
  received_fds_.clear();
}

}  // namespace onstream
