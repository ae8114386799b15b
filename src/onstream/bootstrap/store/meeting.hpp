// A meeting: the keys and gathers of one world, as the store's server keeps them. Pure bookkeeping, no sockets.
//
// Each question that cannot be answered yet waits here under its asker; every change returns the answers it released.
// A rank that died, or left, fails the questions that only it could have answered. Owned and used by the server's
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onstream {

// A frame for the rank that asked.
struct MeetingAnswer {
  int rank = -1;
  std::string frame;
};
using MeetingAnswers = std::vector<MeetingAnswer>;

class Meeting {
 public:
  explicit Meeting(int size, std::string generation = "")
      : generation_(std::move(generation)),
        gone_(static_cast<std::size_t>(size)),
        present_(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(gone_.size()); }
  const std::string& generation() const { return generation_; }
  // Whether this rank may still meet all the others here: it has not been here, and nobody has gone.
  bool open_to(int rank) const;
  // False when that rank is here already, or was.
  bool enter(int rank);
  // Nobody is here, and nobody will come: the meeting can be forgotten.
  bool over() const;

  // The first value of a key stays.
  MeetingAnswers set(std::string_view key, std::string_view value);
  MeetingAnswers get(int rank, std::uint64_t id, std::string_view key);
  MeetingAnswers gather(int rank, std::uint64_t id, std::string_view topic, std::string_view value);
  MeetingAnswers missing(int rank, std::uint64_t id, std::string_view topic) const;
  void cancel(int rank, std::uint64_t id);
  MeetingAnswers leave(int rank);  // said goodbye
  MeetingAnswers die(int rank);    // the connection ended without one

 private:
  enum class RankGone { no, left, died };
  struct Question {
    int rank = -1;
    std::uint64_t id = 0;
  };
  struct Gather {
    std::vector<std::optional<std::string>> values;
    std::vector<bool> came;  // also true for a rank that has given up since
    std::vector<Question> askers;
  };

  MeetingAnswers go(int rank, RankGone how);
  // Forgets the values that a rank gave to incomplete gathers; if a question is given, only to the gather that it is
  // for.
  void take_back(int rank, std::optional<std::uint64_t> id);
  // Fails the askers of a gather that a gone rank has not joined, with the failure that was told first: rank 0's
  // process, which could be asked for it, may end next. True if there is such a rank.
  bool fail_if_hopeless(std::string_view topic, const Gather& gather, MeetingAnswers& answers) const;
  std::optional<int> someone_dead() const;

  std::string generation_;
  std::vector<RankGone> gone_;
  std::vector<std::size_t> departures_;  // the ranks that have gone, in that order: the first is the cause
  std::vector<bool> present_;
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::vector<Question>, std::less<>> getters_;
  std::map<std::string, Gather, std::less<>> gathers_;
};

}  // namespace onstream
