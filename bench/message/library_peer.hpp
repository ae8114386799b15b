// The common part of the libraries beside onstream as they are measured: ranks that meet in onstream's own store,
// device memory for all buffers, operations on a stream only, and no failures that can be told to others.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "library.hpp"
#include "onstream/base/error.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/device.hpp"
#include "support/options.hpp"

namespace onstream::bench {

class PeerLibrary : public Library {
 public:
  int rank() const override { return launch_.rank; }
  int size() const override { return launch_.size; }
  Device& device() const override { return *device_; }
  std::byte* outgoing(Channel channel) const override { return buffers_[channel == Channel::data ? 0 : 2]; }
  std::byte* incoming(Channel channel) const override { return buffers_[channel == Channel::data ? 1 : 3]; }

  void run_host(const Case& c) override {
    fail(ErrorCode::unsupported, name_, " is measured on a stream, there is no ", name_of(c.mode), " from the host");
  }
  void synchronize(Stream stream) override { device_->synchronize(stream); }
  void abort(const std::string& reason) override { end_process(reason); }

  std::string heading() const override {
    return concat("{\"library\":\"", name_, " ", version(), "\",\"device\":", quoted(device_->name()),
                  ",\"device_kind\":\"", name_of(device_->kind()), "\",\"ranks\":", size(), ",\"buffers\":\"",
                  buffers(), "\"}");
  }

 protected:
  PeerLibrary(const char* name, const LibraryOptions& options)
      : name_(name),
        launch_(options.launch),
        largest_(std::max(options.largest, kWordBytes)),
        store_(options.launch, Deadline(kMeetS)),
        device_(open_device(options.device, options.launch.local_rank)) {
    require(options.from == MemoryKind::device && options.to == MemoryKind::device, name_,
            " is measured in device memory");
  }

  // Collective: the id that rank 0 gets by make(id), on all ranks.
  template <class Id, class Make>
  Id meet(const Make& make) {
    const std::string key = concat(name_, ".id");
    Id id{};
    if (rank() == 0) {
      make(id);
      store_.set(key, {reinterpret_cast<const char*>(&id), sizeof(id)});
      return id;
    }
    const std::string text = store_.get(key, Deadline(kMeetS));
    require(text.size() == sizeof(id), "the unique id of ", name_, " came with ", text.size(), " B");
    std::memcpy(&id, text.data(), sizeof(id));
    return id;
  }

  // All four, each by allocate(bytes).
  template <class Allocate>
  void make_buffers(const Allocate& allocate) {
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i] = allocate(i < 2 ? largest_ : kWordBytes);
  }
  template <class Free>
  void free_buffers(const Free& free) {
    for (std::byte* buffer : buffers_) free(buffer);
  }

 private:
  virtual std::string version() const = 0;
  virtual std::string buffers() const = 0;  // where they come from

  static constexpr double kMeetS = 60;
  const char* name_;
  Launch launch_;
  std::size_t largest_;
  Store store_;
  std::shared_ptr<Device> device_;
  std::array<std::byte*, 4> buffers_{};  // data out, data in, control out, control in
};

}  // namespace onstream::bench
