// Attaching, and copying by process id; see attach.hpp and device/kernel/remote_process.hpp.
#include "onstream/device/host/attach.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/base/log.hpp"
#include "onstream/device/export.hpp"
#include "onstream/device/kernel/remote_process.hpp"
#include "onstream/device/lifetime/process_id.hpp"
#include "onstream/device/memory/relay.hpp"

namespace onstream::host {
namespace {

constexpr std::size_t kMostProcesses = std::size_t{1} << 15;  // as many as a remote process address can tell apart
constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << kRemoteProcessShift) - 1;

// An attaching peer reads this word to prove that it reads this process, and not another of the same id.
std::atomic<std::uint64_t> known_word = 0;

// 0: none, or the file is not there. 1: only descendants, and whom the process itself allows. 2, 3: nobody.
int yama_scope() {
  const std::string text = contents_of("/proc/sys/kernel/yama/ptrace_scope");
  const std::vector<std::string_view> words = words_of(text);
  return words.empty() ? 0 : number_in<int>(words[0]).value_or(0);
}

using CopyDirection = CrossMemoryCopy::CopyDirection;

// Copies all of it and returns 0, or the errno that ended it; `copy` is then the rest.
int transfer(pid_t pid, CrossMemoryCopy& copy) {
  const auto call = copy.direction == CopyDirection::read ? ::process_vm_readv : ::process_vm_writev;
  while (copy.bytes > 0) {
    const iovec local{copy.own, copy.bytes};
    const iovec remote{reinterpret_cast<void*>(copy.theirs), copy.bytes};
    const ssize_t moved = call(pid, &local, 1, &remote, 1, 0);
    if (moved <= 0) return moved == 0 ? EFAULT : errno;
    copy.own += moved;
    copy.theirs += static_cast<std::uint64_t>(moved);
    copy.bytes -= static_cast<std::size_t>(moved);
  }
  return 0;
}

// A word of a process.
int read_word(pid_t pid, std::uint64_t address, std::uint64_t& word) {
  CrossMemoryCopy copy{CopyDirection::read, reinterpret_cast<std::byte*>(&word), address, sizeof word};
  return transfer(pid, copy);
}

// Not that memory is missing, nor the process.
bool is_refusal(int error) { return error == EPERM || error == EACCES || error == ENOSYS; }

// Process ids by number. Written under a lock, read by kernels without one. Negative: the system has refused since.
class Processes {
 public:
  static Processes& of_this() {
    // Never destroyed: streams may outlive every other static, for example in an interpreter that is shutting down.
    static auto* const processes = new Processes;
    return *processes;
  }

  std::size_t add(pid_t pid) {
    const std::lock_guard lock(mutex_);
    for (std::size_t number = 0; number < kMostProcesses; ++number) {
      if (pids_[number].load(std::memory_order_relaxed) != 0) continue;
      pids_[number].store(pid, std::memory_order_release);  // pairs with pid()
      return number;
    }
    fail(ErrorCode::unsupported, "this process is attached to ", kMostProcesses, " others already");
  }
  void remove(std::size_t number) {
    const std::lock_guard lock(mutex_);
    pids_[number].store(0, std::memory_order_release);
    relays_.erase(number);
  }
  void relay(std::size_t number, std::shared_ptr<Relay> relay) {
    const std::lock_guard lock(mutex_);
    relays_[number] = std::move(relay);
  }
  pid_t pid(std::uint64_t address) const { return pids_[number_of(address)].load(std::memory_order_acquire); }

  // Copies through the relay of the address's process, as the system refuses the rest of the copy.
  int relayed(std::uint64_t address, const CrossMemoryCopy& copy, int refusal) {
    std::shared_ptr<Relay> relay;
    {
      const std::lock_guard lock(mutex_);
      const std::size_t number = number_of(address);
      const auto found = relays_.find(number);
      if (found == relays_.end()) return refusal;
      relay = found->second;
      const pid_t pid = pids_[number].load(std::memory_order_relaxed);
      pids_[number].store(pid > 0 ? -pid : pid, std::memory_order_release);  // pairs with pid(): nobody asks it again
    }
    return relay->copy(copy, refusal);
  }

 private:
  static std::size_t number_of(std::uint64_t address) {
    return (address >> kRemoteProcessShift) & (kMostProcesses - 1);
  }

  std::mutex mutex_;
  std::array<std::atomic<pid_t>, kMostProcesses> pids_{};
  std::map<std::size_t, std::shared_ptr<Relay>> relays_;
};

class ProcessAttachment final : public Attachment {
 public:
  explicit ProcessAttachment(pid_t pid) : number_(Processes::of_this().add(pid)) {}
  ~ProcessAttachment() override { Processes::of_this().remove(number_); }
  ProcessAttachment(const ProcessAttachment&) = delete;
  ProcessAttachment& operator=(const ProcessAttachment&) = delete;
  std::uint64_t base() const override { return (kMostProcesses | number_) << kRemoteProcessShift; }
  void relay_by(std::shared_ptr<Relay> relay) override { Processes::of_this().relay(number_, std::move(relay)); }

 private:
  std::size_t number_;
};

// Ranks that are threads of one process: an address means the same to both.
class OwnAttachment final : public Attachment {
 public:
  std::uint64_t base() const override { return 0; }
};

// The system reads a file from memory, and writes it there, with an error where a load or a store would fault.
int copy_through_file(std::byte* destination, const std::byte* source, std::size_t bytes) {
  const Fd file(::memfd_create("onstream copy", MFD_CLOEXEC));
  if (!file.valid()) return errno;
  const auto all = [&](const auto& some) {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t now = some(done);
      if (now < 0 && errno == EINTR) continue;
      if (now <= 0) return now == 0 ? EFAULT : errno;
      done += static_cast<std::size_t>(now);
    }
    return 0;
  };
  const int error =
      all([&](std::size_t at) { return ::pwrite(file.get(), source + at, bytes - at, static_cast<off_t>(at)); });
  if (error != 0) return error;
  return all([&](std::size_t at) { return ::pread(file.get(), destination + at, bytes - at, static_cast<off_t>(at)); });
}

std::string advice_for(int error) {
  if (error == ENOSYS) return "this kernel has no such call";
  if (error != EPERM) return "";
  if (const int scope = yama_scope(); scope > 1) return concat("/proc/sys/kernel/yama/ptrace_scope is ", scope);
  return "other user, other user namespace, not dumpable, or a container's seccomp filter; --cap-add=SYS_PTRACE helps "
         "with the last";
}

}  // namespace

ProcessRecord process_record() {
  if (yama_scope() == 1) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // the probe tells whether it sufficed
  known_word.store(process_id(), std::memory_order_release);
  return {static_cast<std::int32_t>(getpid()), process_id(), reinterpret_cast<std::uint64_t>(&known_word)};
}

std::shared_ptr<Attachment> attach(const ProcessRecord& record, pid_t pid) {
  if (record.process_id == process_id()) return std::make_shared<OwnAttachment>();
  if (pid <= 0) {
    fail(ErrorCode::unsupported, "process ", record.pid, " runs in a container whose processes this one cannot see");
  }
  std::uint64_t word = 0;
  const int error = read_word(pid, record.word_address, word);
  if (error != 0) {
    const std::string advice = advice_for(error);
    fail(ErrorCode::unsupported, "process_vm_readv of process ", pid, ": ", error_text(error),
         advice.empty() ? "" : concat(" (", advice, ")"));
  }
  if (word != record.process_id) {
    fail(ErrorCode::unsupported, "process ", pid, " is not the peer: another namespace numbers its processes");
  }
  return std::make_shared<ProcessAttachment>(pid);
}

std::string no_attach_reason() {
  if (const int scope = yama_scope(); scope > 1 && ::geteuid() != 0) {
    return concat("/proc/sys/kernel/yama/ptrace_scope is ", scope);
  }
  // A process may always read its own memory; a system that refuses this refuses every read.
  const std::uint64_t word = 1;
  std::uint64_t copy = 0;
  const int error = read_word(getpid(), reinterpret_cast<std::uint64_t>(&word), copy);
  return error == 0 ? "" : concat("process_vm_readv: ", error_text(error));
}

}  // namespace onstream::host

namespace onstream {

Status copy_cross_memory(void* destination, const void* source, std::size_t bytes) {
  const bool writes = is_remote_process(destination);
  const auto theirs = reinterpret_cast<std::uint64_t>(writes ? destination : source);
  auto* own = static_cast<std::byte*>(writes ? const_cast<void*>(source) : destination);
  host::Processes& processes = host::Processes::of_this();
  const pid_t pid = processes.pid(theirs);
  const std::uint64_t address = theirs & host::kAddressMask;
  CrossMemoryCopy copy{writes ? host::CopyDirection::write : host::CopyDirection::read, own, address, bytes};
  int error = pid < 0 ? EPERM : host::transfer(pid, copy);
  if (host::is_refusal(error)) error = processes.relayed(theirs, copy, error);
  if (error == 0) return Status::ok;
  if (error == ESRCH) return Status::aborted;
  if (error == ETIMEDOUT) return Status::timeout;
  log(LogLevel::error, "cannot copy ", bytes, " B ", writes ? "to " : "from ", reinterpret_cast<void*>(address),
      " of process ", pid < 0 ? -pid : pid, writes ? " from " : " to ", static_cast<void*>(own),
      " of this one: ", error_text(error));
  return Status::unmapped;
}

Status scatter_cross_memory(std::span<const iovec> pieces, const void* source) {
  constexpr std::size_t kMost = 512;  // pieces of a call; the system takes 1024
  const auto theirs = reinterpret_cast<std::uint64_t>(source);
  const pid_t pid = host::Processes::of_this().pid(theirs);
  std::uint64_t from = theirs & host::kAddressMask;
  std::size_t next = 0;
  while (pid >= 0 && next < pieces.size()) {
    const std::span<const iovec> now = pieces.subspan(next, std::min(kMost, pieces.size() - next));
    std::size_t bytes = 0;
    for (const iovec& piece : now) bytes += piece.iov_len;
    const iovec remote{reinterpret_cast<void*>(from), bytes};
    if (::process_vm_readv(pid, now.data(), now.size(), &remote, 1, 0) != static_cast<ssize_t>(bytes)) break;
    from += bytes;
    next += now.size();
  }
  // Where the system has not copied all, the rest goes piece by piece, by the way that knows refusals and errors.
  for (; next < pieces.size(); ++next) {
    const std::uint64_t rest = (theirs & ~host::kAddressMask) | from;
    const auto* const piece = reinterpret_cast<const void*>(rest);
    const Status status = copy_cross_memory(pieces[next].iov_base, piece, pieces[next].iov_len);
    if (status != Status::ok) return status;
    from += pieces[next].iov_len;
  }
  return Status::ok;
}

int copy_carefully(void* destination, const void* source, std::size_t bytes) {
  auto* const to = static_cast<std::byte*>(destination);
  CrossMemoryCopy copy{host::CopyDirection::read, to, reinterpret_cast<std::uint64_t>(source), bytes};
  const int error = host::transfer(::getpid(), copy);  // of itself a process may always read
  if (!host::is_refusal(error)) return error;          // unless a filter forbids the call
  return host::copy_through_file(to, static_cast<const std::byte*>(source), bytes);
}

}  // namespace onstream
