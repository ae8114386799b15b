// The rules of the device contract (device/device.hpp) about memory, and the list of devices. The rules about work and
// streams are in device_streams.cpp, about the words that they write and await in device_words.cpp.
//
// Exported memory is tested with a real second process: this program again, started as `--child` with a socket.
#include <sys/mman.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device_rules.hpp"
#include "exports.hpp"
#include "onstream/base/error.hpp"
#include "onstream/device/export.hpp"
#include "support/processes.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// --- memory ---

RULE(allocated_memory_is_zeroed_and_as_asked) {
  for (const MemoryKind kind : kAllKinds) {
    const std::shared_ptr<Memory> memory = device.allocate(100 * 8, kind);
    CHECK(memory->kind() == known_as(kind));
    CHECK(memory->bytes() == 100 * 8);
    CHECK(read(device, memory->data(), 100) == std::vector<std::uint64_t>(100, 0));
  }
}

RULE(allocating_nothing_or_too_much_is_an_error_with_the_bytes) {
  CHECK_THROWS((void)device.allocate(0, MemoryKind::device), "0 B");
  for (const MemoryKind kind : kShared) {
    bool threw = false;
    try {
      (void)device.allocate(std::size_t{1} << 60, kind);
    } catch (const Error&) {
      threw = true;
    }
    CHECK(threw);
  }
}

RULE(memory_begins_at_a_multiple_of_the_largest_power_of_two_within_its_bytes) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::file}) {
    const std::shared_ptr<Memory> between = device.allocate(4096, kind);
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{3} << 20, std::size_t{64} << 20}) {
      const std::shared_ptr<Memory> memory = device.allocate(bytes, kind);
      CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % alignment_of(bytes) == 0);
    }
  }
}

RULE(an_address_inside_an_allocation_leads_to_it) {
  for (const MemoryKind kind : kShared) {
    const std::shared_ptr<Memory> before = device.allocate(4096, kind);
    const std::shared_ptr<Memory> memory = device.allocate(10000, kind);
    const std::shared_ptr<Memory> after = device.allocate(4096, kind);
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{9999}}) {
      const MemoryInfo info = device.inspect(memory->data() + offset);
      CHECK(info.kind == known_as(kind));
      CHECK(info.base == memory->data());
      CHECK(info.bytes == 10000);
      CHECK(info.id != 0);
      CHECK(info.id == device.inspect(memory->data()).id);
      CHECK(info.exportable);
      CHECK(info.kernel_access);
    }
    CHECK(device.inspect(before->data()).id != device.inspect(memory->data()).id);
    CHECK(device.inspect(memory->data()).id != device.inspect(after->data()).id);
  }
  const std::shared_ptr<Memory> memory = device.allocate(64, MemoryKind::device);
  CHECK(device.inspect(memory->data()).device_index == device.index());
}

RULE(the_id_of_freed_memory_is_never_used_again) {
  std::set<std::uint64_t> ids;
  std::set<const std::byte*> addresses;
  constexpr int kRounds = 16;
  for (int round = 0; round < kRounds; ++round) {
    const std::shared_ptr<Memory> memory = device.allocate(1 << 16, MemoryKind::device);
    ids.insert(device.inspect(memory->data()).id);
    addresses.insert(memory->data());
  }
  CHECK(ids.size() == kRounds);
  CHECK(ids.count(0) == 0);
}

RULE(freed_memory_is_forgotten) {
  std::shared_ptr<Memory> memory = device.allocate(1 << 16, MemoryKind::device);
  const MemoryInfo info = device.inspect(memory->data());
  memory.reset();
  CHECK(device.inspect(info.base).id != info.id);
  CHECK_THROWS((void)device.export_memory(info), "freed");
}

RULE(plain_host_memory_is_reported_as_plain) {
  std::vector<std::uint64_t> plain(1000);
  const MemoryInfo info = device.inspect(plain.data() + 500);
  CHECK(info.kind == MemoryKind::host);
  CHECK(info.base == reinterpret_cast<std::byte*>(plain.data() + 500));
  CHECK(info.bytes == 0);
  CHECK(info.id == 0);
  CHECK(!info.exportable);
  CHECK_THROWS((void)device.export_memory(info), "plain host memory");
  const std::shared_ptr<Memory> allocated = device.allocate(64, MemoryKind::host);
  CHECK(!device.inspect(allocated->data()).exportable);
}

RULE(memory_in_a_file_has_a_second_view_that_outlives_it) {
  constexpr std::size_t kBytes = std::size_t{1} << 16;
  std::shared_ptr<Memory> memory = device.allocate(kBytes, MemoryKind::file);
  void* const second = ::mremap(memory->data(), 0, kBytes, MREMAP_MAYMOVE);  // the old size 0 asks for one more
  CHECK(second != MAP_FAILED);
  auto* seen = static_cast<std::uint64_t*>(second);
  seen[0] = 30;
  {
    const OwnStream stream(device);
    launch_one(device, AddOnce{words(memory), 12}, stream);
    device.synchronize(stream);
  }
  CHECK(seen[0] == 42);
  memory.reset();
  CHECK(seen[0] == 42);
  CHECK(::munmap(second, kBytes) == 0);
}

RULE(an_export_of_this_process_comes_back_as_its_own_address) {
  for (const MemoryKind kind : kShared) {
    const std::shared_ptr<Memory> memory = device.allocate(1000, kind);
    Export exported = device.export_memory(device.inspect(memory->data() + 10));
    CHECK(exported.record.bytes == 1000);
    CHECK(exported.record.kind == known_as(kind));
    CHECK(exported.record.base == reinterpret_cast<std::uintptr_t>(memory->data()));
    CHECK((exported.record.has_fd != 0) == exported.fd.valid());
    const std::shared_ptr<Mapping> mapping = device.import_memory(exported.record, std::move(exported.fd));
    CHECK(mapping->data() == memory->data());
    CHECK(mapping->bytes() == 1000);
  }
}

RULE(an_export_that_makes_no_sense_is_refused) {
  const std::shared_ptr<Memory> memory = device.allocate(4096, MemoryKind::device);
  Export exported = device.export_memory(device.inspect(memory->data()));
  ExportRecord record = exported.record;
  record.flavour = 0xffff;
  record.process_id ^= 1;
  CHECK_THROWS((void)device.import_memory(record, std::move(exported.fd)), "");
}

// --- small memory ---

RULE(what_the_cpu_puts_kernels_load_and_what_they_store_the_cpu_gets) {
  const SmallCopies how = device.small_copies();
  CHECK(!how.how.empty() && !how.why.empty());
  const OwnStream stream(device);
  std::vector<std::shared_ptr<SmallMemory>> pieces;
  for (const std::size_t bytes : {8, 256, 300, 4096, 8192, 8192}) pieces.push_back(device.allocate_small(bytes));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t value = 1000 + i;
    pieces[i]->put(pieces[i]->bytes() / 8 * 8 - 8, &value, 8);
    pieces[i]->put(0, &value, 8);
  }
  for (int turn = 0; turn < 20; ++turn) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::uint64_t value = 1000 + 10 * static_cast<std::uint64_t>(turn) + i;
      pieces[i]->put(0, &value, 8);
      launch_one(device, AddOnce{words(pieces[i]), 5}, stream);
    }
    device.synchronize(stream);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::uint64_t value = 0;
      pieces[i]->get(&value, 0, 8);
      CHECK(value == 1005 + 10 * static_cast<std::uint64_t>(turn) + i);
    }
  }
  std::uint64_t last = 0;
  pieces[5]->get(&last, 8184, 8);
  CHECK(last == 1005);
  CHECK_THROWS(pieces[0]->put(1, &last, 8), "put of 8 B at offset 1 of small memory of 8 B");
  CHECK_THROWS(pieces[0]->get(&last, 9, 0), "get of 0 B at offset 9");
  CHECK_THROWS((void)device.allocate_small(0), "0 B");
}

// --- managed memory ---

RULE(cpu_and_kernels_use_managed_memory_by_turns) {
  constexpr std::uint64_t kCount = 50'000;
  const std::shared_ptr<Memory> memory = device.allocate(kCount * 8, MemoryKind::managed);
  const OwnStream stream(device);
  for (const Advice advice : {Advice::device, Advice::host, Advice::read_mostly, Advice::none}) {
    device.advise(memory->data(), kCount * 8, advice);
    for (const DeviceKind where : {device.kind(), DeviceKind::host}) {
      for (std::uint64_t i = 0; i < kCount; ++i) words(memory)[i] = i;
      device.prefetch(memory->data(), kCount * 8, where, stream);
      launch_one(device, AddOnce{words(memory) + 7, 100}, stream);
      device.prefetch(memory->data() + 8, 80, DeviceKind::host, stream);
      device.synchronize(stream);
      CHECK(words(memory)[7] == 107 && words(memory)[kCount - 1] == kCount - 1);
      launch_one(device, Fill{words(memory), kCount, 1000}, stream, {4, 64});
      device.synchronize(stream);
      CHECK(words(memory)[0] == 1000 && words(memory)[kCount - 1] == 999 + kCount);
    }
  }
}

RULE(cpu_and_kernels_add_to_one_word_at_the_same_time) {
  constexpr std::uint64_t kTimes = 50;
  constexpr std::uint64_t kByCpu = 2000;
  const std::uint64_t threads = device.kind() == DeviceKind::host ? 4 : 4 * 64;
  for (const Advice advice : {Advice::none, Advice::device}) {
    const std::shared_ptr<Memory> memory = device.allocate(4096, MemoryKind::managed);
    device.advise(memory->data(), 4096, advice);
    const OwnStream stream(device);
    for (int launch = 0; launch < 3; ++launch) launch_one(device, AddShared{words(memory), kTimes}, stream, {4, 64});
    for (std::uint64_t i = 0; i < kByCpu; ++i) HostGroup::add_system(words(memory), 1);
    device.synchronize(stream);
    CHECK(words(memory)[0] == 3 * threads * kTimes + kByCpu);
  }
}

RULE(a_prefetch_in_a_capture_is_left_out) {
  const std::shared_ptr<Memory> memory = device.allocate(4096, MemoryKind::managed);
  const OwnStream stream(device);
  device.begin_capture(stream);
  device.prefetch(memory->data(), 4096, device.kind(), stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  for (int replay = 0; replay < 3; ++replay) device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(words(memory)[0] == 3);
}

RULE(hints_for_memory_that_is_not_managed_are_refused) {
  const std::shared_ptr<Memory> memory = device.allocate(4096, MemoryKind::pinned);
  const std::shared_ptr<Memory> managed = device.allocate(4096, MemoryKind::managed);
  const OwnStream stream(device);
  CHECK_THROWS(device.advise(memory->data(), 8, Advice::device), "which is pinned memory");
  CHECK_THROWS(device.prefetch(memory->data(), 8, device.kind(), stream), "which is pinned memory");
  CHECK_THROWS(device.prefetch(managed->data() + 4000, 97, device.kind(), stream), "beyond the end");
}

// --- memory of another process ---

constexpr std::uint64_t kFromParent = 1000;
constexpr std::uint64_t kFromChild = 5000;
constexpr std::size_t kExchanged = 4096;

// The other process: maps the exported memory, checks the parent's values, and stores its own with a kernel.
int child(const char* spec) {
  try {
    const std::shared_ptr<Device> device = open_device(spec, 0);
    Export exported = receive_export(kChildSocket);
    const std::shared_ptr<Mapping> mapping = device->import_memory(exported.record, std::move(exported.fd));
    require(mapping->bytes() == kExchanged * 8, "mapped ", mapping->bytes(), " B");
    require(device->inspect(mapping->data() + 8).kernel_access, "kernels cannot access the mapping");
    require(counts_from(read(*device, mapping->data(), kExchanged), kFromParent), "the parent's values are not there");
    auto* out = reinterpret_cast<std::uint64_t*>(mapping->data());
    const OwnStream stream(*device);
    launch_one(*device, Fill{out, kExchanged, kFromChild}, stream, {4, 64});
    device->synchronize(stream);
    return say_done();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
    return 2;
  }
}

RULE(another_process_loads_and_stores_exported_memory) {
  for (const MemoryKind kind : kShared) {
    const std::shared_ptr<Memory> memory = device.allocate(kExchanged * 8, kind);
    const OwnStream stream(device);
    launch_one(device, Fill{words(memory), kExchanged, kFromParent}, stream);
    device.synchronize(stream);
    Child other(name_of(device.kind()));
    send_export(other.socket(), device.export_memory(device.inspect(memory->data())));
    other.finish();
    CHECK(counts_from(read(device, memory->data(), kExchanged), kFromChild));
  }
}

// --- the list of devices ---

CASE(the_host_device_is_always_listed_and_last) {
  const std::vector<DeviceRow> rows = list_devices();
  CHECK(!rows.empty());
  CHECK(rows.back().kind == DeviceKind::host);
  CHECK(!rows.back().name.empty());
  CHECK(rows.back().memory_bytes > 0);
  CHECK((rows.size() == 1) == !no_cuda_reason().empty());
}

CASE(a_device_opens_by_name) {
  CHECK(open_device("host", 3)->kind() == DeviceKind::host);
  CHECK(open_device("host", 0)->max_blocks() == 1);
  const DeviceKind expected = no_cuda_reason().empty() ? DeviceKind::cuda : DeviceKind::host;
  CHECK(open_device("auto", 0)->kind() == expected);
}

CASE(a_device_that_does_not_exist_is_an_error_that_says_why) {
  CHECK_THROWS((void)open_device("gpu", 0), "'gpu' is none of: auto, host, cuda, cuda:N");
  CHECK_THROWS((void)open_device("cuda:", 0), "'cuda:'");
  CHECK_THROWS((void)open_device("cuda:-1", 0), "'cuda:-1'");
  CHECK_THROWS((void)open_device("cuda:1x", 0), "'cuda:1x'");
  CHECK_THROWS((void)open_device("host", -1), "local_rank is -1");
  CHECK_THROWS((void)open_device("cuda:4096", 0), "'cuda:4096' was asked for");
  if (!no_cuda_reason().empty()) CHECK_THROWS((void)open_device("cuda", 0), "there is no GPU");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--child") return child(argv[2]);
  return onstream::test::run(argc, argv);
}
