// One connection of the mesh: frames with file descriptors beside them, written and read without blocking.
//
// A descriptor travels with the first byte of its frame (SCM_RIGHTS), so it is there when the frame is complete. Used
// by one thread at a time: the mesh's own, or the constructing one before that runs; the functions that write also by
// the thread of the pulse, under the mesh's lock for writing.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "onstream/base/fd.hpp"
#include "onstream/bootstrap/socket.hpp"
#include "onstream/bootstrap/wire.hpp"

namespace onstream {

class MeshLink {
 public:
  struct ReceivedFrame {
    wire::Frame frame;
    Fd fd;  // invalid though the frame carries one: this process is out of descriptors
  };

  MeshLink() = default;
  explicit MeshLink(Fd socket) : socket_(std::move(socket)) {}

  const Fd& socket() const { return socket_; }
  bool open() const { return socket_.valid(); }
  void allow(std::size_t max_body_bytes) { reader_.allow(max_body_bytes); }

  // Takes the frame (wire::encode's bytes, with kCarriesFd set if `fd` is valid) for writing.
  void enqueue(std::string frame, Fd fd);
  bool has_to_write() const { return !outgoing_.empty(); }
  // Writes as much as the kernel takes. False when the other end is gone.
  bool write_some();
  // When the kernel last took bytes; 0: never.
  std::uint64_t written_ns() const { return written_ns_; }
  // Reads the bytes that have come, up to so many chunks of 64 KiB; then the other peers get their turn. `end` when the
  // other end is gone; next() still gives earlier frames.
  Received read_some(int most_chunks = 16);
  // The next whole frame. Throws invalid_argument for malformed bytes.
  std::optional<ReceivedFrame> next();
  void close();

 private:
  struct QueuedFrame {
    std::string bytes;
    Fd fd;
    std::size_t sent = 0;
  };

  ssize_t send_front();

  Fd socket_;
  std::uint64_t written_ns_ = 0;
  wire::FrameReader reader_;
  std::deque<Fd> received_fds_;
  std::deque<QueuedFrame> outgoing_;
};

}  // namespace onstream
