// The tuner: the path that a transfer takes, and its explanation.
#include "onstream/tuner/choose.hpp"

#include "onstream/tuner/blocks.hpp"

#include "check.hpp"

using namespace onstream;

namespace {

Transfer reachable(std::uint64_t bytes, DeviceKind device = DeviceKind::cuda) {
  Transfer transfer;
  transfer.bytes = bytes;
  transfer.device = device;
  transfer.source.exposed = true;
  transfer.destination.exposed = true;
  transfer.pieces = 1;
  return transfer;
}

Transfer hidden(std::uint64_t bytes) {
  Transfer transfer = reachable(bytes);
  transfer.source.exposed = transfer.destination.exposed = false;
  transfer.source.why_not = "source is private";
  transfer.destination.why_not = "destination is private";
  return transfer;
}

bool says(const Choice& choice, const std::string& text) { return choice.why.find(text) != std::string::npos; }

}  // namespace

CASE(size_decides_between_ll_store_and_copy) {
  Parameters parameters;
  parameters.ll_max_bytes = 8192;
  parameters.host_ll_max_bytes = 4096;
  parameters.copy_min_bytes = 1 << 20;
  CHECK(choose(reachable(8192), parameters).path == Path::ll);
  CHECK(says(choose(reachable(8192), parameters), "8 KiB <= ll_max_bytes 8 KiB"));
  CHECK(choose(reachable(8193), parameters).path == Path::store);
  CHECK(choose(reachable(4097, DeviceKind::host), parameters).path == Path::store);
  CHECK(choose(reachable(1 << 20), parameters).path == Path::copy);
  CHECK(choose(reachable(1 << 20, DeviceKind::host), parameters).path == Path::store);
}

CASE(a_scattered_bulk_transfer_says_why_it_is_not_copied) {
  Parameters parameters;
  parameters.copy_min_bytes = 1 << 20;
  Transfer transfer = reachable(1 << 20);
  transfer.pieces = 0;
  CHECK(choose(transfer, parameters).path == Path::store);
  CHECK(says(choose(transfer, parameters), "not copy: the layouts fall into more than 256"));
}

CASE(what_cannot_be_stored_is_loaded_or_staged) {
  const Parameters parameters;
  Transfer transfer = hidden(1 << 20);
  CHECK(choose(transfer, parameters).path == Path::stage);
  CHECK(says(choose(transfer, parameters), "destination is private"));
  CHECK(says(choose(transfer, parameters), "source is private"));
  transfer.source.why_not = transfer.destination.why_not;
  CHECK(choose(transfer, parameters).why == transfer.source.why_not);  // said once
  transfer.source.exposed = true;
  CHECK(choose(transfer, parameters).path == Path::load);
  CHECK(needs_exposure(transfer, parameters));
  CHECK(!needs_exposure(hidden(8), parameters));
}

CASE(memory_that_kernels_cannot_touch_is_staged) {
  const Parameters parameters;
  Transfer transfer = reachable(8);
  transfer.source.kernel_access = false;
  transfer.source.exposed = false;
  CHECK(choose(transfer, parameters).path == Path::stage);
  transfer.pieces = 0;
  CHECK(choose(transfer, parameters).path == Path::automatic);
  CHECK(says(choose(transfer, parameters), "kernels cannot touch"));
}

CASE(a_wanted_path_is_taken_or_refused_never_replaced) {
  const Parameters parameters;
  for (const Path path : {Path::ll, Path::store, Path::load, Path::copy, Path::memop, Path::stage}) {
    Transfer transfer = reachable(100);
    transfer.wanted = path;
    transfer.wanted_by = "set by a test";
    CHECK(choose(transfer, parameters).path == path);
    CHECK(choose(transfer, parameters).why == "set by a test");
  }
  Transfer transfer = hidden(100);
  for (const Path path : {Path::store, Path::load, Path::copy, Path::memop, Path::net}) {
    transfer.wanted = path;
    CHECK(choose(transfer, parameters).path == Path::automatic);
    CHECK(says(choose(transfer, parameters), name_of(path)));
  }
  transfer = reachable(kLargestLl + 1);
  transfer.wanted = Path::ll;
  CHECK(says(choose(transfer, parameters), "exceed the 16 MiB that ll carries"));
}

CASE(a_message_to_oneself_is_a_copy) {
  const Parameters parameters;
  Transfer transfer = hidden(8);
  transfer.same_rank = true;
  CHECK(choose(transfer, parameters).path == Path::store);
  transfer.source.kernel_access = false;
  CHECK(choose(transfer, parameters).path == Path::copy);
}

CASE(every_path_has_a_name_that_reads_back) {
  for (const Path path :
       {Path::automatic, Path::ll, Path::store, Path::load, Path::copy, Path::memop, Path::stage, Path::net}) {
    CHECK(path_from(name_of(path)) == path);
  }
  CHECK_THROWS((void)path_from("fast"), "'fast' is no path; the paths are auto, ll, store, load, copy, stage, memop");
}

CASE(blocks_grow_with_the_work_up_to_the_limit) {
  const auto each = static_cast<std::uint64_t>(Parameters().block_bytes);
  CHECK(blocks_for(0, each, 64) == 1);
  CHECK(blocks_for(each, each, 64) == 1);
  CHECK(blocks_for(each + 1, each, 64) == 2);
  CHECK(blocks_for(1 << 20, 1 << 18, 64) == 4);
  CHECK(blocks_for(std::uint64_t{1} << 40, each, 64) == 64);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
