#include "collective_case.hpp"

#include <array>
#include <vector>

#include "onstream/base/error.hpp"
#include "support/options.hpp"

namespace onstream::bench {

namespace {

constexpr std::array kKinds{OpKind::all_reduce,     OpKind::reduce, OpKind::broadcast, OpKind::all_gather,
                            OpKind::reduce_scatter, OpKind::gather, OpKind::scatter,   OpKind::all_to_all,
                            OpKind::scan,           OpKind::barrier};

OpKind kind_from(const std::string& name) {
  std::string known;
  for (const OpKind kind : kKinds) {
    if (name == onstream::name_of(kind)) return kind;
    known += concat(known.empty() ? "" : ", ", onstream::name_of(kind));
  }
  fail(ErrorCode::invalid_argument, "there is no collective '", name, "'; there are ", known);
}

CollectiveSubmission submission_from(const std::string& name) {
  for (const auto one : {CollectiveSubmission::host, CollectiveSubmission::eager, CollectiveSubmission::captured}) {
    if (name == name_of(one)) return one;
  }
  fail(ErrorCode::invalid_argument, "there is no submission '", name, "'; there are host, eager, captured");
}

bool is_divided(OpKind kind) {
  return kind == OpKind::all_gather || kind == OpKind::reduce_scatter || kind == OpKind::gather ||
         kind == OpKind::scatter || kind == OpKind::all_to_all;
}

}  // namespace

std::size_t CollectiveCase::count(int size) const {
  const std::size_t elements = bytes / size_of(type);
  return is_divided(kind) ? elements / static_cast<std::size_t>(size) : elements;
}

double CollectiveCase::bus_factor(int size) const {
  const double others = static_cast<double>(size - 1) / size;
  if (kind == OpKind::all_reduce) return 2 * others;
  return is_divided(kind) ? others : 1;
}

const char* name_of(CollectiveSubmission submission) {
  switch (submission) {
    case CollectiveSubmission::host: return "host";
    case CollectiveSubmission::eager: return "eager";
    default: return "captured";
  }
}

CollectiveCase collective_case_from(const std::string& text) {
  std::vector<std::string> fields;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  require(fields.size() == 7, "a case is KIND:TYPE:OP:SUBMISSION:BYTES:ITERATIONS:WINDOW, not '", text, "'");
  constexpr int kMost = 1'000'000;
  CollectiveCase c;
  c.kind = kind_from(fields[0]);
  c.type = element_type_of(fields[1]);
  c.op = reduce_op_of(fields[2]);
  c.submission = submission_from(fields[3]);
  c.bytes = static_cast<std::size_t>(count_from("BYTES", fields[4], 0, 2'147'483'647));
  c.iterations = count_from("ITERATIONS", fields[5], 1, kMost);
  c.window = count_from("WINDOW", fields[6], 1, kMost);
  return c;
}

std::string text_of(const CollectiveCase& c) {
  return concat(onstream::name_of(c.kind), ":", onstream::name_of(c.type), ":", onstream::name_of(c.op), ":",
                name_of(c.submission), ":", c.bytes, ":", c.iterations, ":", c.window);
}

}  // namespace onstream::bench
