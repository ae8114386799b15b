// The edges of a neighbourhood before there is any memory: which rank names which, and which end belongs to which.
// These are pure functions of all ranks' arguments, so that every rank comes to the same result, or the same error.
#pragma once

#include <string>
#include <vector>

namespace onstream::collective {

// One rank's end of an edge: the rank at the other end (of the world; -1: a grid ends here), and its place there, if
// it is known before (in a grid), or -1.
struct EdgeEnd {
  int rank = -1;
  int place = -1;
};

struct EdgeList {
  std::vector<EdgeEnd> in;   // from its sources
  std::vector<EdgeEnd> out;  // to its destinations

  // Places of the edges that there are; those with one rank follow each other as the sender names them, at both ends.
  std::vector<std::size_t> out_as_sent() const;
  std::vector<std::size_t> in_as_sent() const;

  std::string packed() const;
  static EdgeList unpacked(const std::string& bytes);
};

// The edges of `rank` in a grid of `ranks`. Throws invalid_argument.
EdgeList edges_of_grid(const std::vector<int>& dims, const std::vector<bool>& periodic, const std::vector<int>& ranks,
                       int rank);
// The edges of two lists of ranks of the team.
EdgeList edges_of_graph(const std::vector<int>& sources, const std::vector<int>& destinations,
                        const std::vector<int>& ranks);

// Finds the place of every edge at its other end; `lists` are of all the world's ranks. Throws invalid_argument naming
// a pair of ranks whose lists do not fit.
void match(std::vector<EdgeList>& lists);

// Whether every rank hears from all that it sends to.
bool all_hear_back(const std::vector<EdgeList>& lists);

}  // namespace onstream::collective
