// How a failure is told: pure functions over the ranks' reports.
#include "onstream/transport/failure.hpp"
#include "onstream/device/host/group.hpp"

#include <algorithm>
#include <thread>

#include "onstream/base/text.hpp"
#include "onstream/device.hpp"
#include "onstream/transport/board.hpp"
#include "support/check.hpp"

using namespace onstream;

namespace {

FaultReport fault(int rank, OpKind op, int peer, Status status, double timeout_s = 0) {
  FaultReport report;
  report.rank = rank;
  report.status = status;
  report.op = op;
  report.peer = peer;
  report.tag = 3;
  report.bytes = 8;
  report.timeout_s = timeout_s;
  return report;
}

int lines_with(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

CASE(an_integer_of_8_bits_is_told_as_a_number) {
  CHECK(concat("a word of ", std::uint8_t{65}, " B, ", std::int8_t{-3}, ' ', 'x') == "a word of 65 B, -3 x");
}

CASE(a_timeout_names_its_deadline_and_the_parameter) {
  CHECK(describe(fault(1, OpKind::recv, 0, Status::timeout, 2.5)) ==
        "rank 1: recv of 8 B from rank 0 with tag 3 passed its deadline of 2.5 s (timeout_s)");
}

CASE(an_op_of_a_plan_names_the_plan) {
  FaultReport report = fault(1, OpKind::send, 0, Status::timeout, 1);
  report.plan = 7;
  report.plan_op = 4;
  report.set_plan_name("jacobi");
  CHECK(what_of(report) == "send of 8 B to rank 0 with tag 3 (op 4 of plan 'jacobi')");
  report.set_plan_name(std::string(100, 'x'));  // as much as fits, and an end
  CHECK(describe(report).find("'" + std::string(39, 'x') + "'") != std::string::npos);
}

CASE(a_story_tells_each_fault_once) {
  const FaultReport mine = fault(1, OpKind::send, 2, Status::timeout, 1);
  Failure failure;
  failure.reason = describe(mine);
  failure.faults = {mine, fault(2, OpKind::send, 1, Status::aborted)};
  const std::string whole = story_of(failure);
  CHECK(lines_with(whole, describe(mine)) == 1);
  CHECK(whole.find("these waits form a cycle: rank 1 send") != std::string::npos);
  const std::string rest = story_of(failure, describe(mine));
  CHECK(lines_with(rest, describe(mine)) == 0);
  CHECK(rest.find("rank 2: send") != std::string::npos);
}

CASE(the_facts_are_the_story_without_how_to_go_on) {
  Failure failure;
  failure.reason = "aborted: enough";
  const std::string facts = facts_of(failure);
  CHECK(facts == "the world has failed: aborted: enough");
  CHECK(story_of(failure).starts_with(facts + "\nto go on, every rank closes this world"));
  CHECK(facts_of(failure, failure.reason).empty());
  CHECK(story_of(failure, failure.reason).starts_with("the world has failed with it; to go on"));
}

CASE(a_cycle_of_messages_says_how_to_break_it) {
  Failure failure;
  failure.ahead.bytes = 4096;
  failure.faults = {fault(0, OpKind::send, 1, Status::timeout, 1), fault(1, OpKind::send, 0, Status::aborted)};
  const std::string sends = story_of(failure);
  CHECK(sends.find("post the receive before the send (irecv), or use sendrecv: a send of more than 4096 B "
                   "waits for its receive\n") != std::string::npos);
  failure.ahead = {4096, 2, 65536};
  CHECK(story_of(failure).find("a send of more than 4096 B (65536 B on tags below 2) waits") != std::string::npos);
  failure.faults = {fault(0, OpKind::recv, 1, Status::timeout, 1), fault(1, OpKind::recv, 0, Status::aborted)};
  CHECK(story_of(failure).find("one has to send first") != std::string::npos);
  failure.faults[1].op = OpKind::wait;
  CHECK(story_of(failure).find("first") == std::string::npos);
  failure.faults.pop_back();  // no cycle
  CHECK(story_of(failure).find("first") == std::string::npos);
}

CASE(a_send_and_its_receive_on_unlike_lanes_are_told_as_that) {
  Failure failure;
  failure.faults = {fault(0, OpKind::send, 1, Status::timeout, 1), fault(1, OpKind::recv, 0, Status::aborted)};
  failure.faults[0].tag = 2;
  const std::string story = story_of(failure);
  const auto hint = story.find(
      "rank 0 sends with tag 2, rank 1 receives with tag 3: if these two are meant for each other, their tags must be "
      "the same");
  const auto cycle = story.find("these waits form a cycle: rank 0 send of 8 B to rank 1 with tag 2 -> rank 1 recv");
  const auto way_out = story.find("post the receive before the send");  // should only their order be wrong
  CHECK(cycle < hint && hint < way_out && way_out < std::string::npos);
  failure.faults[0].tag = 3;  // the tags agree, so the lanes are not the cause
  CHECK(story_of(failure).find("tags must") == std::string::npos);
  failure.faults[0].tag = 2;
  failure.faults[0].plan = 7;  // messages of plans have lanes of their own
  CHECK(story_of(failure).find("tags must") == std::string::npos);
}

CASE(unlike_lanes_of_two_ranks_do_not_hide_a_cycle_of_others) {
  Failure failure;
  failure.faults = {fault(0, OpKind::send, 1, Status::timeout, 1), fault(1, OpKind::send, 0, Status::aborted),
                    fault(2, OpKind::send, 3, Status::aborted), fault(3, OpKind::recv, 2, Status::aborted)};
  failure.faults[2].tag = 2;
  const std::string story = story_of(failure);
  CHECK(story.find("these waits form a cycle: rank 0 send of 8 B to rank 1 with tag 3 -> rank 1 send") !=
        std::string::npos);
  CHECK(story.find("rank 2 sends with tag 2, rank 3 receives with tag 3: if these two") != std::string::npos);
}

CASE(several_receives_that_lack_the_same_messages_are_explained_once) {
  Failure failure;
  failure.faults = {fault(0, OpKind::recv, 1, Status::timeout, 1), fault(0, OpKind::recv, 1, Status::timeout, 1)};
  failure.faults[1].bytes = 16;
  CHECK(lines_with(story_of(failure), "no whole message came") == 1);
}

CASE(a_receive_that_nothing_came_for_says_what_the_other_rank_did) {
  Failure failure;
  failure.faults = {fault(0, OpKind::recv, 1, Status::timeout, 1)};
  CHECK(story_of(failure).find(
            "rank 1 tells of no wait of its own, and no whole message came from it to rank 0 with tag 3: check "
            "that it sends, and on this tag; if a rank computes longer than timeout_s, raise that") !=
        std::string::npos);
  failure.faults.push_back(fault(1, OpKind::recv, 2, Status::aborted));
  CHECK(story_of(failure).find(
            "rank 1 waited in recv of 8 B from rank 2 with tag 3, and no whole message came from it to rank 0 with "
            "tag 3") != std::string::npos);
  for (std::vector<int> Failure::* gone : {&Failure::dead, &Failure::left}) {  // told already
    failure.*gone = {1};
    CHECK(story_of(failure).find("no whole message") == std::string::npos);
    failure.*gone = {};
  }
  failure.faults[0].status = Status::aborted;  // something else was first
  CHECK(story_of(failure).find("no whole message") == std::string::npos);
}

CASE(a_send_that_nobody_took_says_what_the_other_rank_did) {
  Failure failure;
  failure.ahead.bytes = 64;
  failure.faults = {fault(0, OpKind::send, 1, Status::timeout, 1)};
  const std::string small = story_of(failure);
  CHECK(small.find("rank 1 tells of no wait of its own, and it took no whole message of rank 0 with tag 3: check that "
                   "it receives, and on this tag; if a rank computes longer than timeout_s, raise that; small messages "
                   "wait once") != std::string::npos);
  failure.faults[0].bytes = 65;
  CHECK(story_of(failure).find("small messages wait") == std::string::npos);
  failure.faults.push_back(fault(1, OpKind::recv, 2, Status::aborted));
  CHECK(story_of(failure).find("rank 1 waited in recv of 8 B from rank 2 with tag 3, and it took no whole message of "
                               "rank 0 with tag 3") != std::string::npos);
}

CASE(what_did_not_start_is_told_with_its_rank_and_the_reason) {
  const Error reason(ErrorCode::aborted, "the cat");
  const auto told = [&](DidNot what) {
    try {
      fail_named(what, 3, "a barrier", reason);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::aborted);
      return std::string(error.what());
    }
  };
  CHECK(told(DidNot::start) == "rank 3: a barrier did not start: the cat");
  CHECK(told(DidNot::end) == "rank 3: a barrier did not end: the cat");
}

CASE(ranks_that_call_unlike_collectives_are_told_how_to_find_out) {
  FaultReport report = fault(0, OpKind::all_reduce, 1, Status::misused);
  const std::string rule = "parameter collective_check=on (ONSTREAM_COLLECTIVE_CHECK=on) tells who calls what";
  CHECK(describe(report).find(rule) != std::string::npos);
  // The story has the rule once, whichever ranks report it, and with any reason of the failure.
  Failure failure;
  failure.faults = {report, fault(1, OpKind::all_reduce, 0, Status::misused),
                    fault(2, OpKind::all_reduce, 0, Status::misused)};
  for (const std::string& reason : {std::string("aborted: enough"), describe(report)}) {
    failure.reason = reason;
    const std::string story = story_of(failure);
    CHECK(story.find(rule) != std::string::npos && story.find(rule) == story.rfind(rule));
    for (const char* rank : {"rank 0: all_reduce", "rank 1: all_reduce", "rank 2: all_reduce"}) {
      CHECK(story.find(rank) != std::string::npos);
    }
  }
}

CASE(a_story_with_dead_ranks_says_how_the_living_go_on) {
  Failure failure;
  failure.reason = "rank 2 (pid 71) died: its process ended";
  failure.dead = {2, 0};
  CHECK(story_of(failure).find("to go on without ranks 2, 0, every other rank closes this world") != std::string::npos);
}

CASE(a_rank_that_had_left_is_told_only_if_somebody_waits_for_it) {
  Failure failure;
  failure.reason = "aborted: the cat";
  failure.left = {3};
  CHECK(story_of(failure).find("had left") == std::string::npos);
  failure.faults = {fault(1, OpKind::recv, 3, Status::aborted)};
  CHECK(story_of(failure).find("rank 3 had left the world before") != std::string::npos);
}

CASE(what_is_unheard_is_the_end_of_the_chain_of_waits) {
  Failure failure;
  CHECK(!unheard(failure, 0));  // it waits for nobody
  failure.faults = {fault(0, OpKind::send, 1, Status::timeout)};
  CHECK(unheard(failure, 0).value_or(-1) == 1);
  failure.faults.push_back(fault(1, OpKind::send, 2, Status::aborted));
  CHECK(unheard(failure, 0).value_or(-1) == 2);
  failure.dead = {2};  // says nothing any more
  CHECK(!unheard(failure, 0));
  failure.dead = {};
  failure.faults.push_back(fault(2, OpKind::send, 0, Status::aborted));  // a cycle: all is heard
  CHECK(!unheard(failure, 0));
}

CASE(a_ring_of_faults_that_ran_over_keeps_the_newest_in_order) {
  const auto device = open_device("host", 0);
  OwnMemory own(device);
  Board board(*device, own, Launch{}, Parameters{});
  const HostGroup group(0, 1);
  for (const std::uint64_t count : {1u, 64u, 65u, 66u, 70u, 128u, 130u, 200u}) {
    for (std::uint64_t i = 0; i < count; ++i) report(group, board.wait_view(), Status::truncated, Fault{.bytes = i});
    CHECK(board.has_news());
    const std::vector<Board::Collected> news = board.collect();
    CHECK(news.size() == std::min(count, kFaultSlots));
    for (std::size_t i = 0; i < news.size(); ++i) CHECK(news[i].report.bytes == count - news.size() + i);
    CHECK(!board.has_news());
  }
}

// Otherwise a wait that ended by its peer's word would be taken for one that held.
CASE(who_finds_the_word_of_any_peer_set_finds_the_world_failed) {
  const auto device = open_device("host", 0);
  OwnMemory own(device);
  Launch launch;
  launch.size = 1 << 16;  // so that there is time between the first word and the last
  for (int round = 0; round < 10; ++round) {
    Board board(*device, own, launch, Parameters{});
    const std::uint64_t* const word = board.wait_view(0).abort;
    std::thread failing([&] { board.set_abort(Cause::failure); });
    while (HostGroup::load_acquire(word) == 0) std::this_thread::yield();
    const bool failed = board.aborted();
    failing.join();
    CHECK(failed);
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
