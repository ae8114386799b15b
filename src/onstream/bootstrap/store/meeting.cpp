#include "onstream/bootstrap/store/meeting.hpp"

#include <algorithm>

#include "onstream/bootstrap/store/store_protocol.hpp"

namespace onstream {
namespace {

using store_protocol::MessageKind;

MeetingAnswer value_for(int rank, std::uint64_t id, std::string_view value) {
  return {rank, wire::encode(MessageKind::value, wire::Packer().u64(id).text(value).body())};
}

MeetingAnswer failure_for(int rank, std::uint64_t id, ErrorCode code, std::string_view text) {
  wire::Packer body;
  body.u64(id);
  wire::pack_error(body, code, text);
  return {rank, wire::encode(MessageKind::failed, body.body())};
}

}  // namespace

bool Meeting::enter(int rank) {
  const auto at = static_cast<std::size_t>(rank);
  if (present_[at]) return false;
  present_[at] = true;
  return true;
}

bool Meeting::open_to(int rank) const {
  const bool complete = std::all_of(gone_.begin(), gone_.end(), [](RankGone how) { return how == RankGone::no; });
  return complete && (rank >= size() || !present_[static_cast<std::size_t>(rank)]);
}

bool Meeting::over() const {
  bool someone_came = false;
  for (std::size_t rank = 0; rank < gone_.size(); ++rank) {
    if (present_[rank] && gone_[rank] == RankGone::no) return false;
    someone_came = someone_came || present_[rank];
  }
  return someone_came;
}

std::optional<int> Meeting::someone_dead() const {
  const auto found = std::find(gone_.begin(), gone_.end(), RankGone::died);
  if (found == gone_.end()) return std::nullopt;
  return static_cast<int>(found - gone_.begin());
}

MeetingAnswers Meeting::set(std::string_view key, std::string_view value) {
  MeetingAnswers answers;
  if (!values_.emplace(key, value).second) return answers;
  const auto waiting = getters_.find(key);
  if (waiting == getters_.end()) return answers;
  for (const Question& question : waiting->second) answers.push_back(value_for(question.rank, question.id, value));
  getters_.erase(waiting);
  return answers;
}

MeetingAnswers Meeting::get(int rank, std::uint64_t id, std::string_view key) {
  if (const auto found = values_.find(key); found != values_.end()) return {value_for(rank, id, found->second)};
  if (const std::optional<int> dead = someone_dead())
    return {failure_for(rank, id, ErrorCode::aborted, concat("rank ", *dead, " died; key '", key, "' was not set"))};
  getters_[std::string(key)].push_back({rank, id});
  return {};
}

MeetingAnswers Meeting::gather(int rank, std::uint64_t id, std::string_view topic, std::string_view value) {
  MeetingAnswers answers;
  Gather& gather = gathers_[std::string(topic)];
  gather.values.resize(gone_.size());
  gather.came.resize(gone_.size());
  std::optional<std::string>& mine = gather.values[static_cast<std::size_t>(rank)];
  if (mine.has_value())
    return {failure_for(rank, id, ErrorCode::invalid_argument,
                        concat("rank ", rank, " gathers topic '", topic, "' a second time; each topic is used once"))};
  mine = value;
  gather.came[static_cast<std::size_t>(rank)] = true;
  gather.askers.push_back({rank, id});

  const bool complete =
      std::all_of(gather.values.begin(), gather.values.end(), [](const auto& v) { return v.has_value(); });
  if (complete) {
    wire::Packer values;
    values.u32(static_cast<std::uint32_t>(gather.values.size()));
    for (const auto& one : gather.values) values.text(*one);
    for (const Question& asker : gather.askers)
      answers.push_back(
          {asker.rank, wire::encode(MessageKind::gathered, wire::Packer().u64(asker.id).body() + values.body())});
    gathers_.erase(gathers_.find(topic));
  } else if (fail_if_hopeless(topic, gather, answers)) {
    gather.askers.clear();
  }
  return answers;
}

bool Meeting::fail_if_hopeless(std::string_view topic, const Gather& gather, MeetingAnswers& answers) const {
  for (const std::size_t rank : departures_) {
    if (gather.values[rank].has_value()) continue;
    const bool died = gone_[rank] == RankGone::died;
    const std::string text = died ? concat("rank ", rank, " died before ", topic, ": its connection to rank 0 closed")
                                  : concat("rank ", rank, " gave up before ", topic, "; see its own error");
    const auto told = values_.find(store_protocol::kFailure);
    const std::string all = store_protocol::with_first_failure(text, told == values_.end() ? "" : told->second);
    for (const Question& asker : gather.askers)
      answers.push_back(failure_for(asker.rank, asker.id, died ? ErrorCode::aborted : ErrorCode::closed, all));
    return true;
  }
  return false;
}

MeetingAnswers Meeting::missing(int rank, std::uint64_t id, std::string_view topic) const {
  std::vector<std::uint32_t> ranks;
  const auto found = gathers_.find(topic);
  for (std::uint32_t other = 0; other < gone_.size(); ++other)
    if (found != gathers_.end() && !found->second.came[other]) ranks.push_back(other);
  wire::Packer body;
  body.u64(id).u32(static_cast<std::uint32_t>(ranks.size()));
  for (const std::uint32_t other : ranks) body.u32(other);
  return {{rank, wire::encode(MessageKind::absent, body.body())}};
}

void Meeting::cancel(int rank, std::uint64_t id) {
  const auto asked = [&](const Question& question) { return question.rank == rank && question.id == id; };
  for (auto& [key, questions] : getters_) std::erase_if(questions, asked);
  std::erase_if(getters_, [](const auto& entry) { return entry.second.empty(); });
  take_back(rank, id);
}

void Meeting::take_back(int rank, std::optional<std::uint64_t> id) {
  const auto theirs = [&](const Question& question) {
    return question.rank == rank && id.value_or(question.id) == question.id;
  };
  for (auto& [topic, gather] : gathers_) {
    if (std::erase_if(gather.askers, theirs) > 0 || !id) gather.values[static_cast<std::size_t>(rank)].reset();
  }
  std::erase_if(gathers_, [](const auto& entry) {
    return std::none_of(entry.second.values.begin(), entry.second.values.end(),
                        [](const auto& v) { return v.has_value(); });
  });
}

MeetingAnswers Meeting::go(int rank, RankGone how) {
  gone_[static_cast<std::size_t>(rank)] = how;
  departures_.push_back(static_cast<std::size_t>(rank));
  for (auto& [key, questions] : getters_) std::erase_if(questions, [&](const Question& q) { return q.rank == rank; });
  take_back(rank, std::nullopt);
  MeetingAnswers answers;
  for (auto& [topic, gather] : gathers_) {
    if (fail_if_hopeless(topic, gather, answers)) gather.askers.clear();
  }
  if (how != RankGone::died) return answers;
  for (const auto& [key, questions] : getters_)
    for (const Question& question : questions)
      answers.push_back(failure_for(question.rank, question.id, ErrorCode::aborted,
                                    concat("rank ", rank, " died; key '", key, "' was not set")));
  getters_.clear();
  return answers;
}

MeetingAnswers Meeting::leave(int rank) { return go(rank, RankGone::left); }
MeetingAnswers Meeting::die(int rank) { return go(rank, RankGone::died); }

}  // namespace onstream
