#include "onstream/collective/neighbour/edge_list.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "onstream/base/error.hpp"

namespace onstream::collective {

namespace {

// Coordinates of a rank, the last dimension the fastest, and back.
std::vector<int> place_in(const std::vector<int>& dims, int rank) {
  std::vector<int> at(dims.size());
  for (std::size_t d = dims.size(); d-- > 0; rank /= dims[d]) at[d] = rank % dims[d];
  return at;
}
int rank_of(const std::vector<int>& dims, const std::vector<int>& at) {
  int rank = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) rank = rank * dims[d] + at[d];
  return rank;
}

std::ptrdiff_t edges_between(const std::vector<EdgeEnd>& ends, int rank) {
  return std::ranges::count(ends, rank, &EdgeEnd::rank);
}

// The place of the n-th end (from 0) that belongs to `rank`, or -1.
int nth_place(const std::vector<EdgeEnd>& ends, int rank, std::ptrdiff_t n) {
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].rank == rank && n-- == 0) return static_cast<int>(i);
  }
  return -1;
}

// Each end of `mine`, which is rank's, gets its place among the other ends of its ranks.
template <class Others>
bool place_all(std::vector<EdgeEnd>& mine, int rank, const Others& others, int& with) {
  for (std::size_t i = 0; i < mine.size(); ++i) {
    EdgeEnd& end = mine[i];
    if (end.rank < 0) continue;
    const std::vector<EdgeEnd>& there = others(end.rank);
    if (end.place < 0) {
      const auto before = std::count_if(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(i),
                                        [&](const EdgeEnd& other) { return other.rank == end.rank; });
      end.place = nth_place(there, rank, before);
    }
    const auto place = static_cast<std::size_t>(end.place);
    with = end.rank;
    if (end.place < 0 || place >= there.size() || there[place].rank != rank) return false;
  }
  return true;
}

}  // namespace

std::vector<std::size_t> EdgeList::out_as_sent() const {
  std::vector<std::size_t> places;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (out[k].rank >= 0) places.push_back(k);
  }
  return places;
}

std::vector<std::size_t> EdgeList::in_as_sent() const {
  std::vector<std::size_t> places;
  for (std::size_t j = 0; j < in.size(); ++j) {
    if (in[j].rank >= 0) places.push_back(j);
  }
  std::ranges::sort(places, {}, [this](std::size_t j) { return in[j].place; });
  return places;
}

std::string EdgeList::packed() const {
  std::vector<std::int32_t> words = {static_cast<std::int32_t>(in.size()), static_cast<std::int32_t>(out.size())};
  for (const auto* ends : {&in, &out}) {
    for (const EdgeEnd& end : *ends) words.insert(words.end(), {end.rank, end.place});
  }
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(std::int32_t)};
}

EdgeList EdgeList::unpacked(const std::string& bytes) {
  std::vector<std::int32_t> words(bytes.size() / sizeof(std::int32_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::int32_t));
  require(words.size() >= 2 && words[0] >= 0 && words[1] >= 0 &&
              words.size() == 2 + 2 * (static_cast<std::size_t>(words[0]) + static_cast<std::size_t>(words[1])),
          "neighbourhood: a rank sent edges of another version");
  EdgeList list;
  std::size_t next = 2;
  const auto take = [&](std::vector<EdgeEnd>& ends, std::int32_t count) {
    for (std::int32_t i = 0; i < count; ++i, next += 2) ends.push_back({words[next], words[next + 1]});
  };
  take(list.in, words[0]);
  take(list.out, words[1]);
  return list;
}

EdgeList edges_of_grid(const std::vector<int>& dims, const std::vector<bool>& periodic, const std::vector<int>& ranks,
                       int rank) {
  require(periodic.empty() || periodic.size() == dims.size(), "neighbourhood: periodic has ", periodic.size(),
          " entries for ", dims.size(), " dimensions; give one each, or none");
  std::int64_t size = 1;
  std::string text;
  for (const int dim : dims) {
    require(dim >= 1, "neighbourhood: a grid has a dimension of ", dim, " ranks");
    size = std::min<std::int64_t>(size * dim, std::int64_t{1} << 31);
    text += concat(text.empty() ? "" : " x ", dim);
  }
  if (rank < 0) return {};  // of no team
  require(!dims.empty() && size == static_cast<std::int64_t>(ranks.size()), "neighbourhood: a grid of ",
          dims.empty() ? "no dimensions" : text, " has no place for each of the team's ", ranks.size(), " ranks");
  EdgeList list;
  const std::vector<int> at = place_in(dims, rank);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const bool around = d < periodic.size() && periodic[d];
    for (const int step : {-1, 1}) {
      std::vector<int> to = at;
      to[d] += step;
      if (around) to[d] = (to[d] + dims[d]) % dims[d];
      const bool there = to[d] >= 0 && to[d] < dims[d];
      // Data sent to the lower neighbour arrives there from the upper one.
      const int place = static_cast<int>(2 * d) + (step < 0 ? 1 : 0);
      const EdgeEnd end = there ? EdgeEnd{ranks[static_cast<std::size_t>(rank_of(dims, to))], place} : EdgeEnd{};
      list.in.push_back(end);
      list.out.push_back(end);
    }
  }
  return list;
}

EdgeList edges_of_graph(const std::vector<int>& sources, const std::vector<int>& destinations,
                        const std::vector<int>& ranks) {
  EdgeList list;
  const auto take = [&](const char* what, const std::vector<int>& names, std::vector<EdgeEnd>& ends) {
    for (const int name : names) {
      require(name >= 0 && static_cast<std::size_t>(name) < ranks.size(), "neighbourhood: rank ", name, " among the ",
              what, " does not exist; this team has ",
              ranks.empty() ? "none" : concat("ranks 0 to ", ranks.size() - 1));
      ends.push_back({ranks[static_cast<std::size_t>(name)], -1});
    }
  };
  take("sources", sources, list.in);
  take("destinations", destinations, list.out);
  return list;
}

void match(std::vector<EdgeList>& lists) {
  const std::vector<EdgeList> stated = lists;
  const auto refuse = [&](int from, int to) {
    fail(ErrorCode::invalid_argument, "neighbourhood: rank ", from, " sends along ",
         edges_between(stated[static_cast<std::size_t>(from)].out, to), " edges to rank ", to,
         ", which receives along ", edges_between(stated[static_cast<std::size_t>(to)].in, from),
         " from it; both ends name an edge, and all ranks the same grid");
  };
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const int rank = static_cast<int>(i);
    int with = -1;
    const auto ins = [&](int other) -> const std::vector<EdgeEnd>& {
      return stated[static_cast<std::size_t>(other)].in;
    };
    const auto outs = [&](int other) -> const std::vector<EdgeEnd>& {
      return stated[static_cast<std::size_t>(other)].out;
    };
    if (!place_all(lists[i].out, rank, ins, with)) refuse(rank, with);
    if (!place_all(lists[i].in, rank, outs, with)) refuse(with, rank);
  }
}

bool all_hear_back(const std::vector<EdgeList>& lists) {
  return std::ranges::all_of(lists, [](const EdgeList& list) {
    return std::ranges::all_of(list.out, [&](const EdgeEnd& end) { return edges_between(list.in, end.rank) > 0; });
  });
}

}  // namespace onstream::collective
