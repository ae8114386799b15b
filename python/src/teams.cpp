#include "teams.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/one_sided/team.hpp"
#include "waiting.hpp"

namespace onstream::python {

namespace {

// Every call holds the world: a team is of no use after it.
struct PyTeam {
  std::shared_ptr<WorldState> state;
  std::shared_ptr<Team> team;

  std::optional<PyTeam> other(std::shared_ptr<Team> made) const {
    if (made == nullptr) return std::nullopt;
    return PyTeam{state, std::move(made)};
  }
};

std::optional<PyTeam> split(const PyTeam& self, std::optional<int> colour, int key) {
  require(!colour || *colour >= 0, "colour=", colour.value_or(0), ": a colour is 0 or more, or None for no team");
  const auto make = [world = self.state->open(), team = self.team, colour = colour.value_or(Team::kNone), key] {
    return team->split(colour, key);
  };
  return self.other(run_interruptible(make));
}

std::optional<PyTeam> split_strided(const PyTeam& self, int first, int step, int count) {
  const auto make = [world = self.state->open(), team = self.team, first, step, count] {
    return team->split_strided(first, step, count);
  };
  return self.other(run_interruptible(make));
}

std::pair<PyTeam, PyTeam> split_2d(const PyTeam& self, int width) {
  const auto make = [world = self.state->open(), team = self.team, width] { return team->split_2d(width); };
  auto [row, column] = run_interruptible(make);
  return {PyTeam{self.state, std::move(row)}, PyTeam{self.state, std::move(column)}};
}

void barrier(PyTeam& self, nb::handle stream) {
  const auto world = self.state->open();
  const StreamChoice choice = choose_stream(stream, std::nullopt, world->device());
  if (!choice.stream) return run_interruptible([world, team = self.team] { team->sync(); });
  {
    const nb::gil_scoped_release release;
    self.team->barrier(*choice.stream);
  }
  self.state->keep(choice, Hold(nb::find(self)));
}

PyTeam make_team(PyWorld& self) {
  return {self.state(), run_interruptible([world = self.open()] { return world->team(); })};
}

}  // namespace

void bind_teams(nb::module_& m, nb::class_<PyWorld>& world) {
  nb::class_<PyTeam>(m, "Team", "Ranks that meet. Use World.team(), and split that.")
      .def_prop_ro(
          "rank", [](const PyTeam& self) { return self.team->rank(); }, "Of this process, in the team.")
      .def_prop_ro("size", [](const PyTeam& self) { return self.team->size(); })
      .def_prop_ro(
          "members",
          [](const PyTeam& self) {
            const auto members = self.team->members();
            return std::vector<int>(members.begin(), members.end());
          },
          "Their ranks in the world, in the team's order.")
      .def("split", &split, nb::arg("colour").none(), nb::arg("key") = 0,
           "Members of one colour, 0 or more, become a team, ordered by key, then by rank; None: in no team, and gets "
           "None.\nCollective over this team, as all splits are.")
      .def("split_strided", &split_strided, nb::arg("first"), nb::arg("step"), nb::arg("count"),
           "Members first, first + step, ..., `count` of them; the others get None.")
      .def("split_2d", &split_2d, nb::arg("width"),
           "Members as rows of `width`: this process's row and its column. The last row may be shorter.")
      .def("barrier", &barrier, nb::kw_only(), nb::arg("stream") = nb::none(),
           "Blocks until every member's host has come here. With a stream it does not block, and may be captured: the\n"
           "stream goes on once every member's has come, and sees what each had stored before. Collective.");
  world.def("team", &make_team,
            "The team of all ranks. Collective the first time, and allocates then: not in a capture.");
}

}  // namespace onstream::python
