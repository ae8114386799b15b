// An export of a device on its way to another process: one message with at most one descriptor over a socket.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstring>

#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/device.hpp"
#include "onstream/device/export.hpp"

namespace onstream::test {

inline void send_export(int socket, const Export& exported) {
  ExportRecord record = exported.record;
  iovec part{&record, sizeof record};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (exported.fd.valid()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = exported.fd.get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != sizeof record) fail_errno("sending an export to the child");
}

inline Export receive_export(int socket) {
  Export out;
  iovec part{&out.record, sizeof out.record};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof out.record) fail_errno("receiving an export");
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    out.fd = Fd(fd);
  }
  return out;
}

}  // namespace onstream::test
