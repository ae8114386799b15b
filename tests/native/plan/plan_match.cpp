// How the ops of all ranks are matched and validated, without a world.
#include "onstream/plan/build/match.hpp"

#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;
using plan::StatedOp;
using plan::Statement;

namespace {

StatedOp stated(OpKind kind, int peer, std::uint64_t bytes, int lane = 0, std::string note = "") {
  StatedOp op;
  op.kind = kind;
  op.peer = peer;
  op.tag = lane;
  op.bytes = bytes;
  op.layout.run_bytes = bytes;
  op.note = std::move(note);
  return op;
}

using Parts = std::vector<plan::StatedPart>;

plan::StatedCall call_of(std::string words, std::vector<std::int32_t> ranks, Parts gives = {}, Parts takes = {}) {
  plan::StatedCall call;
  call.words = std::move(words);
  call.ranks = std::move(ranks);
  call.gives = std::move(gives);
  call.takes = std::move(takes);
  return call;
}

// The error of such calls, one list a rank.
std::string wrong(std::vector<std::vector<plan::StatedCall>> calls) {
  std::vector<Statement> all;
  for (auto& one : calls) {
    Statement statement;
    statement.calls = std::move(one);
    all.push_back(std::move(statement));
  }
  std::string text;
  for (const std::string& problem : plan::match_calls(all).problems) text += problem + "\n";
  return text;
}

std::vector<Statement> statements(std::vector<std::vector<StatedOp>> ops) {
  std::vector<Statement> all;
  for (auto& one : ops) {
    Statement statement;
    statement.name = "p";
    statement.ops = std::move(one);
    all.push_back(statement);
  }
  return all;
}

}  // namespace

CASE(sends_and_receives_match_in_order_per_lane) {
  const auto edges = plan::match(
      statements({{stated(OpKind::send, 1, 8, 0), stated(OpKind::send, 1, 16, 1), stated(OpKind::send, 1, 24, 0)},
                  {stated(OpKind::recv, 0, 16, 1), stated(OpKind::recv, 0, 8, 0), stated(OpKind::recv, 0, 24, 0)}}));
  CHECK(edges.size() == 3);
  CHECK(edges[0].destination_op == 1);
  CHECK(edges[1].destination_op == 0);
  CHECK(edges[2].destination_op == 2);
}

CASE(an_unmatched_send_is_told_from_both_sides) {
  const auto all = statements({{stated(OpKind::send, 1, 64, 3, "halo x+")}, {stated(OpKind::recv, 0, 64, 4)}});
  CHECK_THROWS((void)plan::match(all),
               "rank 0 op 0: send of 64 B to rank 1 with tag 3 (halo x+) has no recv: rank 1 receives 0 of the 1");
  CHECK_THROWS((void)plan::match(all),
               "rank 1 op 0: recv of 64 B from rank 0 with tag 4 has no send: rank 0 sends 0 of the 1");
}

CASE(sizes_that_differ_name_both_ops) {
  const auto all = statements({{stated(OpKind::send, 1, 64)}, {stated(OpKind::recv, 0, 32)}});
  CHECK_THROWS((void)plan::match(all),
               "rank 0 op 0: send of 64 B to rank 1 with tag 0 meets rank 1 op 0: recv of 32 B from rank 0 with tag 0: "
               "their sizes differ");
}

CASE(element_types_that_differ_name_both_ops) {
  auto all = statements({{stated(OpKind::send, 1, 64)}, {stated(OpKind::recv, 0, 64)}});
  all[0].ops[0].element = "float64";
  CHECK(plan::match(all).size() == 1);  // the other side does not tell
  all[1].ops[0].element = "int32";
  CHECK_THROWS((void)plan::match(all),
               "rank 0 op 0: send of 64 B to rank 1 with tag 0 meets rank 1 op 0: recv of 64 B from rank 0 with tag 0: "
               "the one sends float64, the other receives int32; only bytes would travel");
  all[1].ops[0].bytes = 32;
  CHECK_THROWS((void)plan::match(all),
               "rank 0 op 0: send of 64 B to rank 1 with tag 0 meets rank 1 op 0: recv of 32 B from rank 0 with tag 0: "
               "the one sends float64, the other receives int32, and their sizes differ");
}

CASE(plans_of_different_names_do_not_match) {
  auto all = statements({{}, {}});
  all[1].name = "q";
  CHECK_THROWS((void)plan::match(all), "rank 1 builds plan 'q' while rank 0 builds plan 'p'");
}

CASE(a_statement_survives_its_travel) {
  Statement statement;
  statement.name = "exchange";
  statement.number = 7;
  statement.device = "a/host/0";
  statement.problems = "none";
  statement.ops = {stated(OpKind::send, 1, 64, 3, "halo x+"), stated(OpKind::recv, 2, 0)};
  statement.ops[0].layout = Layout::strided(8, {8}, {64}).view();
  statement.calls = {call_of("all_reduce", {0, 2}), call_of("all_to_all_v", {1, 0}, {{1, 3}, {0, 4}}, {{0, 6}})};
  statement.calls[1].team = 9;
  const Statement back = plan::unpack(plan::pack(statement));
  CHECK(back.name == "exchange" && back.number == 7 && back.device == "a/host/0" && back.problems == "none");
  CHECK(back.ops.size() == 2 && back.ops[0].note == "halo x+" && back.ops[0].layout.strides[0] == 64);
  CHECK(back.calls.size() == 2 && back.calls[0].words == "all_reduce" && back.calls[0].ranks[1] == 2);
  CHECK(back.calls[1].team == 9 && back.calls[1].gives == statement.calls[1].gives);
  CHECK(back.calls[1].takes == statement.calls[1].takes);
  statement.calls[0].takes = {{1, 8}};
  CHECK_THROWS((void)plan::unpack(plan::pack(statement)),
               "a rank's collective has counts for other ranks than its own");
}

CASE(calls_of_overlapping_teams_meet_where_some_order_serves_all) {
  const auto all = call_of("sum", {0, 1, 2});
  const auto left = call_of("max", {0, 1});
  const auto right = call_of("min", {2, 1});
  CHECK(wrong({{}, {}}).empty());
  CHECK(wrong({{left, all}, {left, right, all}, {right, all}}).empty());
  CHECK(wrong({{all, left}, {left, all}, {all}}) ==
        "rank 0 collective 0: sum of ranks 0 1 2 does not meet rank 1 collective 0: max of ranks 0 1\n"
        "rank 1 collective 0: max of ranks 0 1 does not meet rank 0 collective 0: sum of ranks 0 1 2\n"
        "rank 2 collective 0: sum of ranks 0 1 2 does not meet rank 1 collective 0: max of ranks 0 1\n");
  CHECK(wrong({{left, left}, {left}}) ==
        "rank 0 collective 1: max of ranks 0 1: rank 1 has none that is left to meet it\n");
}

CASE(calls_that_name_ranks_wrongly_are_told) {
  CHECK(wrong({{call_of("sum", {0, 7})}}) ==
        "rank 0 collective 0: sum of ranks 0 7 names ranks that cannot be a team of it\n");
  CHECK(wrong({{call_of("sum", {0, 0})}}) ==
        "rank 0 collective 0: sum of ranks 0 0 names ranks that cannot be a team of it\n");
  CHECK(wrong({{call_of("sum", {1})}, {call_of("sum", {1})}}) ==
        "rank 0 collective 0: sum of ranks 1 names ranks that cannot be a team of it\n");
}

CASE(bytes_between_two_ends_of_a_call_are_compared) {
  const auto first = call_of("v", {0, 1}, {{0, 8}, {1, 16}}, {{0, 8}, {1, 24}});
  CHECK(wrong({{first}, {call_of("v", {0, 1}, {{0, 24}, {1, 0}}, {{0, 16}, {1, 0}})}}).empty());
  CHECK(wrong({{first}, {call_of("v", {0, 1}, {{0, 24}, {1, 0}}, {{0, 12}, {1, 0}})}}) ==
        "v: rank 0 gives rank 1 16 B, which expects 12 B\n");
}

CASE(several_parts_between_two_ends_are_compared_in_order) {
  const auto gives = [](Parts parts) { return call_of("v", {0, 1}, std::move(parts)); };
  const auto takes = [](Parts parts) { return call_of("v", {0, 1}, {}, std::move(parts)); };
  CHECK(wrong({{gives({{1, 4}, {1, 8}})}, {takes({{0, 4}, {0, 8}})}}).empty());
  CHECK(wrong({{gives({{1, 4}, {1, 8}})}, {takes({{0, 8}, {0, 4}})}}) ==
        "v: rank 0 gives rank 1 4 8 B, which expects 8 4 B\n");
  CHECK(wrong({{gives({{1, 4}})}, {takes({})}}) == "v: rank 0 gives rank 1 4 B, which expects nothing\n");
  CHECK(wrong({{gives({})}, {takes({{0, 0}})}}) == "v: rank 0 gives rank 1 nothing, which expects 0 B\n");
}

CASE(a_broken_statement_is_refused) {
  Statement statement;
  statement.name = "exchange";
  statement.ops = {stated(OpKind::send, 1, 64)};
  const std::string good = plan::pack(statement);
  for (std::size_t cut = 0; cut < good.size(); ++cut) CHECK_THROWS((void)plan::unpack(good.substr(0, cut)), "a rank");
  CHECK_THROWS((void)plan::unpack(good + "x"), "after its end");
  statement.ops[0].bytes = 65;
  CHECK_THROWS((void)plan::unpack(plan::pack(statement)), "layout");
}

namespace {

// An op of `kind` with rank `peer` that writes `layout` at `address` of rank `owner`.
StatedOp landing(OpKind kind, int peer, int owner, std::int64_t address, const Layout& layout) {
  StatedOp op = stated(kind, peer, layout.bytes());
  op.layout = layout.view();
  op.landing = {owner, address, layout.view()};
  return op;
}

}  // namespace

CASE(destinations_that_overlap_are_named) {
  const auto recv = [](std::int64_t address, const Layout& layout) {
    return landing(OpKind::recv, 1, 0, address, layout);
  };
  const auto put = [](int owner, std::int64_t address, const Layout& layout) {
    return landing(OpKind::put, owner, owner, address, layout);
  };
  const auto story = [](std::vector<std::vector<StatedOp>> ops, int rank) {
    return plan::find_overlaps(statements(std::move(ops)), rank).story;
  };
  const Layout column = Layout::strided(8, {10}, {64});
  const Layout backwards = Layout::strided(8, {10}, {-64});
  const Layout two = Layout::contiguous(2);
  CHECK(story({{recv(0, column), recv(8, column), recv(16, column)}}, 0).empty());
  CHECK(
      story({{recv(0, column), recv(8, column), recv(3 * 64 + 12, two)}}, 0) ==
      "rank 0 op 1: recv of 80 B from rank 1 with tag 0 and rank 0 op 2: recv of 2 B from rank 1 with tag 0 overlap in "
      "rank 0's memory");
  // Writes of several ranks overlap, in the memory of one of them or of a third.
  CHECK(story({{}, {put(0, 0, column)}, {put(0, 9 * 64 + 8, backwards)}}, 0).empty());
  CHECK(story({{}, {put(0, 0, column)}, {put(0, 9 * 64 + 7, backwards)}}, 0) ==
        "rank 1 op 0: put of 80 B to rank 0 and rank 2 op 0: put of 80 B to rank 0 overlap in rank 0's memory");
  CHECK(story({{recv(0, column)}, {put(0, 64, two)}}, 0) ==
        "rank 0 op 0: recv of 80 B from rank 1 with tag 0 and rank 1 op 0: put of 2 B to rank 0 overlap in rank 0's "
        "memory");
  // The same addresses of different ranks are different memory.
  CHECK(story({{recv(0, column)}, {put(2, 0, column)}, {}}, 0).empty());
  CHECK(story({{recv(0, column)}, {put(2, 0, column)}, {}}, 2).empty());
  // A send and an op of no bytes write nothing.
  CHECK(story({{recv(0, column), recv(0, Layout::contiguous(0)), stated(OpKind::send, 1, 80)}}, 0).empty());
  // Side by side, but too many runs to look at: that is told.
  const Layout many = Layout::strided(1, {600'000}, {4});
  const plan::Overlaps found = plan::find_overlaps(statements({{recv(0, many), recv(1, many), recv(1 << 24, two)}}), 0);
  CHECK(found.story.empty() && found.unlisted == 1'200'000);
}

int main(int argc, char** argv) { return run(argc, argv); }
