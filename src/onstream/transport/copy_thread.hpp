// The copy thread: runs transfers that kernels ask for on the copy engine (messages by path copy, large collectives).
// It uses no SM but those of the asking op, which waits. Started by the first op that asks; one a world.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/device/kernel/copy_slot.hpp"

namespace onstream {

class CopyThread {
 public:
  // `on_failure` is called in the thread if a transfer cannot be made; the thread then ends. Once `has_failed` says so
  // requests are answered, and nothing is moved: by then every abort word has to say that the world has failed.
  CopyThread(std::shared_ptr<Device> device, std::function<void(const std::string&)> on_failure,
             std::function<bool()> has_failed)
      : device_(std::move(device)), on_failure_(std::move(on_failure)), has_failed_(std::move(has_failed)) {}
  ~CopyThread();
  CopyThread(const CopyThread&) = delete;
  CopyThread& operator=(const CopyThread&) = delete;

  // A slot for one op. It ends before the thread does, and with it the slot serves another op, unless one was enqueued.
  class CopierLease {
   public:
    CopierLease() = default;  // of none
    CopierLease(CopyThread& thread, const Copier& copier) : thread_(&thread), copier_(copier) {}
    ~CopierLease() {
      if (thread_ != nullptr) thread_->release(copier_);
    }
    CopierLease(CopierLease&& other) noexcept { *this = std::move(other); }
    CopierLease& operator=(CopierLease&& other) noexcept {
      std::swap(thread_, other.thread_);
      std::swap(copier_, other.copier_);
      return *this;
    }
    CopierLease(const CopierLease&) = delete;
    CopierLease& operator=(const CopierLease&) = delete;
    const Copier& copier() const { return copier_; }
    // For an op that may be enqueued any number of times, each behind the one before: the slot is its own while
    // anybody has the handle, which may outlive the thread.
    std::shared_ptr<const void> share() {
      CopyThread* const thread = std::exchange(thread_, nullptr);
      return thread == nullptr ? nullptr : thread->share(copier_);
    }
    // The op was enqueued on `stream`: the slot serves another one once this one has passed, and that of a captured op
    // once its graph is over.
    void give_back(Stream stream) {
      if (CopyThread* const thread = std::exchange(thread_, nullptr)) thread->give_back(copier_, stream);
    }

   private:
    CopyThread* thread_ = nullptr;
    Copier copier_;
  };
  // For an op to be enqueued now, whose kernel writes the first `lead` bytes itself.
  CopierLease take(std::uint64_t lead);
  std::size_t slots() const;                                                        // in use or not
  std::uint64_t served() const { return served_.load(std::memory_order_relaxed); }  // transfers so far

 private:
  struct Page;  // the memory of several slots and of their answers
  struct Freed {
    std::mutex mutex;
    std::vector<const CopySlot*> slots;
  };
  struct SharedState;
  struct CopierEntry {
    Copier copier;
    std::uint64_t issued = 0;
    std::shared_ptr<Event> retired;  // passed: the slot is free
    bool in_use = false;
    std::shared_ptr<Page> page;
  };
  std::shared_ptr<const void> share(const Copier& copier);
  void give_back(const Copier& copier, Stream stream);
  void release(const Copier& copier);
  CopierEntry& entry_of(const Copier& copier);  // with the mutex held
  void start();                                 // with the mutex held
  CopierEntry* free_entry();                    // likewise; null: there is none
  void add(const std::shared_ptr<Page>& page);  // likewise
  void take_back();
  void serve();
  bool serve(CopierEntry& entry);

  std::shared_ptr<Device> device_;
  std::function<void(const std::string&)> on_failure_;
  std::function<bool()> has_failed_;
  mutable std::mutex mutex_;
  std::vector<CopierEntry> entries_;
  std::shared_ptr<Freed> freed_ = std::make_shared<Freed>();  // of handles, which may outlive this object
  Stream stream_;
  std::thread thread_;
  std::condition_variable news_;  // an op that will ask is on its way
  std::atomic<std::uint64_t> served_ = 0;
  bool expecting_ = false;
  bool stopping_ = false;
};

}  // namespace onstream
