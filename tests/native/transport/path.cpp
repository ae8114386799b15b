// The table of paths: the path that a transfer takes and its explanation, the rules of a file, and their costs.
#include <unistd.h>
#include <cstdio>
#include <filesystem>

#include "onstream/base/text.hpp"
#include "onstream/collective/select/algorithm.hpp"
#include "onstream/collective/select/cost.hpp"
#include "onstream/path/blocks.hpp"
#include "onstream/path/choose.hpp"

#include "support/check.hpp"

using namespace onstream;
using onstream::path::Choice;
using onstream::path::kLargestLl;
using onstream::path::Operation;
using onstream::path::Table;
using onstream::path::Transfer;

namespace {

Transfer reachable(std::uint64_t bytes, DeviceKind device = DeviceKind::cuda) {
  Transfer transfer;
  transfer.bytes = bytes;
  transfer.device = device;
  transfer.source.mapped = true;
  transfer.destination.mapped = true;
  return transfer;
}

Transfer hidden(std::uint64_t bytes) {
  Transfer transfer = reachable(bytes);
  transfer.source.mapped = transfer.destination.mapped = false;
  transfer.source.why_not = "source is private";
  transfer.destination.why_not = "destination is private";
  return transfer;
}

Path taken(const Transfer& transfer, const Parameters& parameters) { return choose(Table(parameters), transfer).path; }
std::string told(const Transfer& transfer, const Parameters& parameters) {
  const Table table(parameters);
  return why(table, transfer, choose(table, transfer));
}
bool says(const Transfer& transfer, const Parameters& parameters, const std::string& text) {
  return told(transfer, parameters).find(text) != std::string::npos;
}

// A file of rules for the time of a test.
class RulesFile {
 public:
  explicit RulesFile(const std::string& text) : name_(concat("/tmp/onstream-test-paths-", ::getpid())) {
    std::FILE* const file = std::fopen(name_.c_str(), "w");
    CHECK(file != nullptr && std::fputs(text.c_str(), file) >= 0 && std::fclose(file) == 0);
  }
  ~RulesFile() { std::filesystem::remove(name_); }
  RulesFile(const RulesFile&) = delete;
  RulesFile& operator=(const RulesFile&) = delete;

  Parameters parameters() const {
    Parameters parameters;
    parameters.path_file = name_;
    return parameters;
  }

 private:
  std::string name_;
};

}  // namespace

CASE(size_decides_between_ll_store_and_copy) {
  Parameters parameters;
  parameters.ll_max_bytes = 8192;
  parameters.host_plan_ll_max_bytes = 4096;
  parameters.copy_min_bytes = 1 << 20;
  CHECK(taken(reachable(8192), parameters) == Path::ll);
  CHECK(says(reachable(8192), parameters, "8 KiB <= ll_max_bytes 8 KiB"));
  CHECK(taken(reachable(8193), parameters) == Path::store);
  CHECK(taken(reachable(4097, DeviceKind::host), parameters) == Path::store);
  CHECK(taken(reachable(1 << 20), parameters) == Path::copy);
  CHECK(taken(reachable(1 << 20, DeviceKind::host), parameters) == Path::store);
}

CASE(a_scattered_bulk_transfer_says_why_it_is_not_copied) {
  Parameters parameters;
  parameters.copy_min_bytes = 1 << 20;
  Transfer transfer = reachable(1 << 20);
  transfer.pieces = 0;
  CHECK(taken(transfer, parameters) == Path::store);
  CHECK(says(transfer, parameters, "not copy: the layouts fall into more than 256"));
}

CASE(what_cannot_be_stored_is_loaded_or_staged) {
  const Parameters parameters;
  Transfer transfer = hidden(1 << 20);
  CHECK(taken(transfer, parameters) == Path::stage);
  CHECK(says(transfer, parameters, "destination is private"));
  CHECK(says(transfer, parameters, "source is private"));
  transfer.source.why_not = transfer.destination.why_not;
  CHECK(told(transfer, parameters) == transfer.source.why_not);  // said once
  transfer.source.mapped = true;
  CHECK(taken(transfer, parameters) == Path::load);
  CHECK(needs_mapping(Table(parameters), transfer));
  CHECK(!needs_mapping(Table(parameters), hidden(8)));
}

CASE(memory_that_kernels_cannot_touch_is_staged) {
  const Parameters parameters;
  Transfer transfer = reachable(8);
  transfer.source.kernel_access = false;
  transfer.source.mapped = false;
  CHECK(taken(transfer, parameters) == Path::stage);
  transfer.pieces = 0;
  CHECK(taken(transfer, parameters) == Path::automatic);
  CHECK(says(transfer, parameters, "kernels cannot touch"));
}

CASE(a_wanted_path_is_taken_or_refused_never_replaced) {
  const Parameters parameters;
  for (const Path path : {Path::ll, Path::store, Path::load, Path::copy, Path::memop, Path::stage}) {
    Transfer transfer = reachable(100);
    transfer.wanted = path;
    transfer.wanted_by = "set by a test";
    CHECK(taken(transfer, parameters) == path);
    CHECK(told(transfer, parameters) == "set by a test");
  }
  Transfer transfer = hidden(100);
  for (const Path path : {Path::store, Path::load, Path::copy, Path::memop, Path::net}) {
    transfer.wanted = path;
    CHECK(taken(transfer, parameters) == Path::automatic);
    CHECK(says(transfer, parameters, name_of(path)));
  }
  transfer = reachable(kLargestLl + 1);
  transfer.wanted = Path::ll;
  CHECK(says(transfer, parameters, "exceed the 16 MiB that ll carries"));
}

CASE(a_transfer_to_oneself_that_cannot_be_says_why) {
  Transfer transfer;
  transfer.bytes = 8;
  transfer.same_rank = true;
  transfer.pieces = 0;
  transfer.wanted = Path::copy;
  CHECK(taken(transfer, Parameters()) == Path::automatic);
  CHECK(told(transfer, Parameters()) == "the layouts fall into more than 256 contiguous pieces");
}

CASE(a_message_to_oneself_is_a_copy) {
  const Parameters parameters;
  Transfer transfer = hidden(8);
  transfer.same_rank = true;
  CHECK(taken(transfer, parameters) == Path::store);
  transfer.source.kernel_access = false;
  CHECK(taken(transfer, parameters) == Path::copy);
}

CASE(a_message_takes_the_path_of_its_size_memory_and_tag) {
  const Parameters parameters;
  const std::uint64_t large = std::uint64_t{64} << 20;
  const auto message = [&](std::uint64_t bytes, Operation operation = Operation::message) {
    Transfer transfer = reachable(bytes);
    transfer.operation = operation;
    return transfer;
  };
  CHECK(taken(message(8192), parameters) == Path::ll);
  CHECK(taken(message(8193), parameters) == Path::store);
  Transfer spread = message(65536);
  spread.spread_tag = true;
  CHECK(taken(spread, parameters) == Path::ll);
  spread.bytes += 1;
  CHECK(taken(spread, parameters) == Path::store);
  Transfer beside = message(8);
  beside.through_ring = false;
  CHECK(taken(beside, parameters) == Path::store);
  CHECK(taken(message(large - 1), parameters) == Path::store);
  CHECK(taken(message(large), parameters) == Path::copy);
  CHECK(taken(message(large, Operation::posted), parameters) == Path::store);
  Transfer from_host_memory = message(large);
  from_host_memory.source.gpu_memory = false;
  CHECK(taken(from_host_memory, parameters) == Path::store);
  Parameters loading;
  loading.message_copy_min_bytes = std::int64_t{1} << 40;
  CHECK(taken(message(large), loading) == Path::load);
  Transfer private_memory = message(large);
  private_memory.source.mapped = false;
  CHECK(taken(private_memory, parameters) == Path::stage);
}

CASE(a_small_posted_message_of_another_process_is_copied_first) {
  const Parameters parameters;
  Transfer transfer = reachable(8192, DeviceKind::host);
  transfer.operation = Operation::posted;
  CHECK(taken(transfer, parameters) == Path::store);
  transfer.source.cross_memory = true;
  CHECK(taken(transfer, parameters) == Path::stage);
  CHECK(says(transfer, parameters, "8 KiB <= attach_min_bytes 32 KiB"));
  transfer.bytes = static_cast<std::uint64_t>(parameters.attach_min_bytes);
  CHECK(taken(transfer, parameters) == Path::store);
  transfer.operation = Operation::message;
  transfer.bytes = 8192;
  CHECK(taken(transfer, parameters) == Path::store);
}

CASE(a_put_goes_by_the_engine_where_kernels_cannot) {
  const Parameters parameters;
  Transfer transfer = reachable(8);
  transfer.operation = Operation::put;
  CHECK(taken(transfer, parameters) == Path::store);
  transfer.source.kernel_access = false;
  CHECK(taken(transfer, parameters) == Path::copy);
  transfer = reachable(static_cast<std::uint64_t>(parameters.copy_min_bytes));
  transfer.operation = Operation::put;
  CHECK(taken(transfer, parameters) == Path::copy);
  transfer.device = DeviceKind::host;
  CHECK(taken(transfer, parameters) == Path::store);
}

CASE(the_table_reads_back_what_it_writes) {
  const Table table{Parameters()};
  const RulesFile file(table.text());
  const Table again(file.parameters());
  CHECK(again.rules().size() > table.rules().size());  // each line about a collective is a rule more
  for (const DeviceKind device : {DeviceKind::host, DeviceKind::cuda}) {
    for (std::uint64_t bytes = 1; bytes < std::uint64_t{1} << 32; bytes *= 3) {
      const Transfer transfer = reachable(bytes, device);
      CHECK(choose(table, transfer).path == choose(again, transfer).path);
      CollectiveCall call;
      call.kind = OpKind::all_reduce;
      call.count = bytes;
      collective::MachineTraits machine{device, 0, 4, 1 << 20, 1 << 20};
      const Algorithm before = collective::choose(call, machine).algorithm;
      machine.paths = &again;
      CHECK(collective::choose(call, machine).algorithm == before);
    }
  }
  CHECK(Table(Parameters()).digest() == table.digest() && again.digest() != table.digest());
}

CASE(a_changed_table_reads_back_whole) {
  const RulesFile file(
      "onstream paths 1\nplan cuda copy from_bytes=0\nmessage host ll to_bytes=18446744073709551615\n"
      "collective cuda ll round_us=0 base_us=0.1234567890123\nposted host stage base_us=7\n");
  const Table table(file.parameters());
  const RulesFile printed(table.text());
  const Table again(printed.parameters());
  for (std::size_t i = 0; i < path::built_in_rules(Parameters()).size(); ++i) {
    CHECK(table.rules()[i].from_bytes == again.rules()[i].from_bytes);
    CHECK(table.rules()[i].to_bytes == again.rules()[i].to_bytes);
    if (table.rules()[i].operation != Operation::collective) {
      CHECK(table.rules()[i].cost.base_us == again.rules()[i].cost.base_us);
    }
  }
  for (const Table* one : {&table, &again}) {
    const path::Cost& cost = one->cost(OpKind::all_reduce, path::Link::cuda, Algorithm::ll, 8);
    CHECK(cost.round_us == 0 && cost.base_us == 0.1234567890123);
    CHECK(choose(*one, reachable(1 << 20)).path == Path::copy);
  }
}

CASE(bounds_of_a_file_never_turn_a_large_transfer_into_lines) {
  const RulesFile file("onstream paths 1\nplan host stage to_bytes=65536\nplan cuda stage to_bytes=65536\n");
  const Table table(file.parameters());
  for (const DeviceKind device : {DeviceKind::host, DeviceKind::cuda}) {
    Transfer transfer = reachable(1 << 20, device);
    CHECK(choose(table, transfer).path == Path::store);
    transfer.source.mapped = transfer.destination.mapped = false;
    CHECK(needs_mapping(table, transfer));
    CHECK(choose(table, transfer).path == Path::automatic);
  }
}

CASE(lines_along_edges_follow_the_costs_of_a_file) {
  const auto most = [](const std::string& line) {
    const RulesFile file("onstream paths 1\n" + line + "\n");
    const Table table(file.parameters());
    const collective::MachineTraits machine{.paths = &table};
    return collective::most_by_lines(machine, OpKind::neighbour_all_gather, 2);
  };
  const std::size_t before = most("neighbour_all_gather host tree base_us=1");
  CHECK(before > 0 && before < 100'000);
  CHECK(most("collective host ll base_us=5") == 0);
  CHECK(most("neighbour_all_gather host ll bytes_per_us=18000") > std::size_t{1} << 40);
}

CASE(a_file_changes_bounds_and_costs_and_a_parameter_wins_over_it) {
  const RulesFile file(
      "# tuned\nonstream paths 1\n\nplan cuda copy from_bytes=1048576 base_us=9 # lower\n"
      "all_gather host simple to_bytes=65536 base_us=1e9\n");
  Parameters parameters = file.parameters();
  CHECK(taken(reachable(1 << 20), parameters) == Path::copy);
  CHECK(says(reachable(1 << 20), parameters, "1 MiB >= path_file 1 MiB"));
  CHECK(taken(reachable((1 << 20) - 1), parameters) == Path::store);
  parameters.copy_min_bytes = 1 << 21;
  CHECK(taken(reachable(1 << 20), parameters) == Path::store);
  CHECK(taken(reachable(1 << 21), parameters) == Path::copy);
  CHECK(says(reachable(1 << 21), parameters, "2 MiB >= copy_min_bytes 2 MiB"));

  const Table table(parameters);
  collective::MachineTraits machine{DeviceKind::host, 0, 2, 1 << 20, 1 << 20};
  CollectiveCall call;
  call.kind = OpKind::all_gather;
  call.count = 32768;
  CHECK(collective::choose(call, machine).algorithm == Algorithm::simple);
  machine.paths = &table;
  CHECK(collective::choose(call, machine).algorithm != Algorithm::simple);
  call.count = 65537;  // beyond the rule of the file
  CHECK(collective::choose(call, machine).algorithm == Algorithm::simple);
  call.count = 32768;
  call.kind = OpKind::all_to_all;  // of another kind
  CHECK(collective::choose(call, machine).algorithm == Algorithm::simple);
}

CASE(a_file_that_is_no_list_of_rules_is_refused_by_line) {
  const auto refused = [](const std::string& text, const std::string& problem) {
    const RulesFile file(text);
    CHECK_THROWS(Table{file.parameters()}, problem);
  };
  const std::string head = "onstream paths 1\n";
  refused("onstream paths 2\n", "line 1: the first line is 'onstream paths 1', not 'onstream paths 2'");
  refused("# nothing\n", "line 1: the first line is");
  refused(head + "message cuda\n", "line 2: a rule names operation, link, and path or algorithm");
  refused(head + "message cuda tree\n", "line 2: there is no rule message cuda tree");
  refused(head + "plan host memop from_bytes=1\n", "there is no rule plan host memop");
  refused(head + "send cuda ll\n", "line 2: there is no operation 'send'");
  refused(head + "all_reduce cuda store\n", "line 2: there is no rule all_reduce cuda store");
  refused(head + "message cuda ll to_bytes=4K\n", "'to_bytes=4K': a whole number of bytes is expected");
  refused(head + "message cuda ll base_us=-1\n", "'base_us=-1': a number from 0 up is expected");
  refused(head + "message cuda ll base_us=nan\n", "'base_us=nan': a number from 0 up is expected");
  refused(head + "message cuda ll speed=1\n", "there is no value 'speed' of a rule");
  refused(head + "message cuda ll base_us=-0\n", "'base_us=-0': a number from 0 up is expected");
  refused(head + "all_reduce host ll bytes_per_us=0\n", "line 2: bytes_per_us of a collective is more than 0");
  refused(head + "message cuda ll from_bytes=64\n", "line 2: this rule takes no such bound: its lower one is 0");
  refused(head + "put cuda store to_bytes=64\n", "line 2: this rule takes no such bound: the rule for copy has");
  refused(head + "put cuda copy to_bytes=99999999999\n", "line 2: this rule takes no such bound: it has no upper one");
  refused(head + "message cuda ll 17\n", "'17' is not name=value");
  refused(head + "plan cuda ll from_bytes=9 to_bytes=8\n", "from_bytes is larger than to_bytes");
  Parameters missing;
  missing.path_file = "/nowhere/at/all";
  CHECK_THROWS(Table{missing}, "path_file /nowhere/at/all: No such file or directory");
}

CASE(an_explanation_names_every_rule) {
  Transfer transfer = reachable(1 << 20);
  transfer.operation = Operation::message;
  const std::string told = explain(Table(Parameters()), transfer);
  CHECK(told.find("message of 1 MiB: store, 1 MiB > ll_max_bytes 8 KiB") == 0);
  CHECK(told.find("\n  copy: 19.2 us predicted; from message_copy_min_bytes 64 MiB") != std::string::npos);
  CHECK(told.find("\n  ll by several blocks: one block sends the messages of this tag") != std::string::npos);
  CHECK(told.find("\n  store: 6.36 us predicted") != std::string::npos);
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
