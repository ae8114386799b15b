// Attaching, and copying by process id; see attach.hpp and device/foreign.hpp.
#include "onstream/device/host/attach.hpp"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/base/log.hpp"
#include "onstream/device/foreign.hpp"
#include "onstream/device/process_id.hpp"

namespace onstream::host {
namespace {

constexpr std::size_t kMostProcesses = std::size_t{1} << 15;  // what a foreign address can tell apart
constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << kForeignShift) - 1;

// What an attaching peer reads to prove that it reads this process, and not another of the same id.
std::atomic<std::uint64_t> known_word = 0;

// 0: none, or the file is not there. 1: only descendants, and whom the process itself allows. 2, 3: nobody.
int yama_scope() {
  const std::string text = contents_of("/proc/sys/kernel/yama/ptrace_scope");
  const std::vector<std::string_view> words = words_of(text);
  return words.empty() ? 0 : number_in<int>(words[0]).value_or(0);
}

enum class Direction { read, write };

// All of it, or the errno that ended it.
int transfer(Direction direction, pid_t pid, std::byte* own, std::uint64_t theirs, std::size_t bytes) {
  const auto call = direction == Direction::read ? ::process_vm_readv : ::process_vm_writev;
  while (bytes > 0) {
    const iovec local{own, bytes};
    const iovec remote{reinterpret_cast<void*>(theirs), bytes};
    const ssize_t moved = call(pid, &local, 1, &remote, 1, 0);
    if (moved <= 0) return moved == 0 ? EFAULT : errno;
    own += moved;
    theirs += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
  return 0;
}

// Process ids by number. Written under a lock, read by kernels without one.
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
  void remove(std::size_t number) { pids_[number].store(0, std::memory_order_release); }
  pid_t pid(std::uint64_t address) const {
    return pids_[(address >> kForeignShift) & (kMostProcesses - 1)].load(std::memory_order_acquire);
  }

 private:
  std::mutex mutex_;
  std::array<std::atomic<pid_t>, kMostProcesses> pids_{};
};

class ProcessAttachment final : public Attachment {
 public:
  explicit ProcessAttachment(pid_t pid) : number_(Processes::of_this().add(pid)) {}
  ~ProcessAttachment() override { Processes::of_this().remove(number_); }
  ProcessAttachment(const ProcessAttachment&) = delete;
  ProcessAttachment& operator=(const ProcessAttachment&) = delete;
  std::uint64_t base() const override { return (kMostProcesses | number_) << kForeignShift; }

 private:
  std::size_t number_;
};

// Ranks that are threads of one process: an address means the same to both.
class OwnAttachment final : public Attachment {
 public:
  std::uint64_t base() const override { return 0; }
};

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
  const int error =
      transfer(Direction::read, pid, reinterpret_cast<std::byte*>(&word), record.word_address, sizeof word);
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
  // Of itself a process may always read; what refuses here refuses everywhere.
  std::uint64_t word = 1;
  std::uint64_t copy = 0;
  const int error = transfer(Direction::read, getpid(), reinterpret_cast<std::byte*>(&copy),
                             reinterpret_cast<std::uint64_t>(&word), sizeof word);
  return error == 0 ? "" : concat("process_vm_readv: ", error_text(error));
}

}  // namespace onstream::host

namespace onstream {

Status copy_foreign(void* destination, const void* source, std::size_t bytes) {
  const bool writes = is_foreign(destination);
  const auto theirs = reinterpret_cast<std::uint64_t>(writes ? destination : source);
  auto* own = static_cast<std::byte*>(writes ? const_cast<void*>(source) : destination);
  const pid_t pid = host::Processes::of_this().pid(theirs);
  const std::uint64_t address = theirs & host::kAddressMask;
  const int error = host::transfer(writes ? host::Direction::write : host::Direction::read, pid, own, address, bytes);
  if (error == 0) return Status::ok;
  if (error == ESRCH) return Status::aborted;
  log(LogLevel::error, "cannot copy ", bytes, " B ", writes ? "to " : "from ", reinterpret_cast<void*>(address),
      " of process ", pid, writes ? " from " : " to ", static_cast<void*>(own), " of this one: ", error_text(error));
  return Status::unmapped;
}

}  // namespace onstream
