// A device that passes every call on to another one: tests change one call of it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include "onstream/base/fd.hpp"

#include "onstream/device.hpp"
#include "onstream/device/export.hpp"

namespace onstream::test {

class DeviceAround : public Device {
 public:
  explicit DeviceAround(std::shared_ptr<Device> inner) : inner_(std::move(inner)) {}

  DeviceKind kind() const override { return inner_->kind(); }
  int index() const override { return inner_->index(); }
  std::string name() const override { return inner_->name(); }
  std::string identity() const override { return inner_->identity(); }
  int max_blocks() const override { return inner_->max_blocks(); }
  std::vector<std::string> whole_lines_to() const override { return inner_->whole_lines_to(); }

  std::shared_ptr<Memory> allocate(std::size_t bytes, MemoryKind kind) override {
    return inner_->allocate(bytes, kind);
  }
  std::shared_ptr<SmallMemory> allocate_small(std::size_t bytes) override { return inner_->allocate_small(bytes); }
  SmallCopies small_copies() const override { return inner_->small_copies(); }
  MemoryInfo inspect(const void* address) const override { return inner_->inspect(address); }
  std::size_t free_bytes() const override { return inner_->free_bytes(); }
  std::uint64_t frees() const override { return inner_->frees(); }
  bool counts_frees_of(const MemoryInfo& info) const override { return inner_->counts_frees_of(info); }
  std::shared_ptr<void> pin(const void* address, std::size_t bytes) override { return inner_->pin(address, bytes); }
  Export export_memory(const MemoryInfo& info) override { return inner_->export_memory(info); }
  std::shared_ptr<Mapping> import_memory(const ExportRecord& record, Fd fd) override {
    return inner_->import_memory(record, std::move(fd));
  }
  void advise(void* address, std::size_t bytes, Advice advice) override { inner_->advise(address, bytes, advice); }
  void prefetch(void* address, std::size_t bytes, DeviceKind where, Stream stream) override {
    inner_->prefetch(address, bytes, where, stream);
  }
  std::optional<ProcessRecord> process_record() override { return inner_->process_record(); }
  std::shared_ptr<Attachment> attach(const ProcessRecord& record, pid_t pid) override {
    return inner_->attach(record, pid);
  }

  Stream create_stream() override { return inner_->create_stream(); }
  void destroy_stream(Stream stream) override { inner_->destroy_stream(stream); }
  bool idle(Stream stream) const override { return inner_->idle(stream); }
  void synchronize(Stream stream) override { inner_->synchronize(stream); }
  std::shared_ptr<Event> record(Stream stream) override { return inner_->record(stream); }
  std::shared_ptr<Event> point(Stream stream) override { return inner_->point(stream); }
  void wait(Stream stream, const std::shared_ptr<Event>& event) override { inner_->wait(stream, event); }

  void load(const Kernel& kernel) override { inner_->load(kernel); }
  std::string timeout_hint() const override { return inner_->timeout_hint(); }
  void copy(void* destination, const void* source, std::size_t bytes, Stream stream) override {
    inner_->copy(destination, source, bytes, stream);
  }
  void launch(const Kernel& kernel, const void* arguments, std::size_t bytes, Grid grid, Stream stream) override {
    inner_->launch(kernel, arguments, bytes, grid, stream);
  }
  Behind behind(Stream stream, bool captured) const override { return inner_->behind(stream, captured); }
  void call(void (*function)(void*), void* argument, Stream stream) override {
    inner_->call(function, argument, stream);
  }
  void operate(std::span<const WordOp> ops, Stream stream) override { inner_->operate(ops, stream); }

  void begin_capture(Stream stream) override { inner_->begin_capture(stream); }
  std::shared_ptr<Graph> end_capture(Stream stream) override { return inner_->end_capture(stream); }
  bool capturing(Stream stream) const override { return inner_->capturing(stream); }
  void retain(Stream stream, std::shared_ptr<const void> thing) override { inner_->retain(stream, std::move(thing)); }
  void guard(Stream stream, std::shared_ptr<const LaunchGuard> guard) override {
    inner_->guard(stream, std::move(guard));
  }
  void launch(const std::shared_ptr<Graph>& graph, Stream stream) override { inner_->launch(graph, stream); }

 private:
  std::shared_ptr<Device> inner_;
};

}  // namespace onstream::test
