"""Team: some ranks of a world, numbered anew, that do collectives together; and how teams are made of teams.

split(), split_strided() and split_2d() are called by every rank of the world, each on a team of its own, as
neighbourhood() is: those of the world itself, or, where the world is dealt to teams, each team's ranks on theirs. A rank
that is in no new team gets one of no ranks, whose `rank` is -1 and on which it makes such calls too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _core, _values
from .cartesian import Cartesian
from .errors import InvalidArgumentError
from .explained import Explained
from .objects import Objects
from .started import Started
from .uneven import Uneven

if TYPE_CHECKING:
    from .world import World


# Colour and key of a split, and the numbers that all members have to name alike.
Choice = tuple[int | None, int, tuple[int, ...]]


class Teams(Objects):
    """The methods that World and Team share: ranks, and teams of them."""

    @property
    def ranks(self) -> list[int]:
        """Which of the world's they are, in the order of their numbers."""
        return self._members.ranks

    def world_rank(self, member: int) -> int:
        """The world's rank of a member. Raises InvalidArgumentError for one that does not exist."""
        number = _values.rank_of(member, "member")
        ranks = self.ranks
        if not 0 <= number < len(ranks):
            raise InvalidArgumentError(f"team: there is no member {number}; this team has {_numbers(len(ranks))}")
        return ranks[number]

    def member_of(self, world_rank: int) -> int | None:
        """The number in this team of one of the world's ranks; None: not in it."""
        rank = _values.rank_of(world_rank, "world_rank")
        ranks = self.ranks
        return ranks.index(rank) if rank in ranks else None

    def translate(self, member: int, team: Teams) -> int | None:
        """The number that a member of this team has in another; None: not in that."""
        return team.member_of(self.world_rank(member))

    @property
    def explain(self) -> Uneven:
        """The same methods, but they run nothing: each returns as text the algorithm that its call would take, and why.

        world.explain.all_reduce(array, op="max") explains world.all_reduce(array, op="max"), on this rank alone; the
        text also has the cost of the other algorithms, or why they cannot run. It refuses the arguments that the call
        itself refuses, except that it does not check where the buffers lie.
        """
        return Explained(self)

    @property
    def start(self) -> Started:
        """The collectives, but they do not block: each returns a Handle, with wait(), done() and `await`.

        handle = world.start.all_reduce(array) is the Iallreduce of mpi4py, and the async_op=True of torch.distributed.
        All ranks start those of one channel in the same order, together with its plain calls, and they run in that
        order; those of different teams and channels run at once. The arguments are those of the plain calls, without a
        stream: it has one of its own, behind the current stream of the arrays' library. There is start.barrier(), too.
        A channel's first collective, and one by algorithm copy, wait for the other ranks' hosts here too. Refused in a
        capture(), where a plain call does not block.
        """
        return Started(self)

    def cartesian(self, dims: Sequence[int], *, periodic: bool | Sequence[bool] = False) -> Cartesian:
        """The ranks as a grid of `dims`, whose zeros are filled in as MPI_Dims_create does. No rank waits.

        periodic: one for all dimensions, or one for each. Raises InvalidArgumentError if `dims` do not hold all ranks.
        """
        return Cartesian(self._members.rank, self._members.size, dims, periodic)

    # --- new teams ---

    def split(self, colour: int | None, key: int = 0, *, channels: int = 1) -> Team:
        """The ranks of this team that give the same colour, as a new team. Collective over the world.

        Parameters
        ----------
        colour : int or None
            None or below 0: in no new team.
        key : int
            The new numbers go by key, then by rank.
        channels : int
            How many channels of collectives the new team has.

        Returns
        -------
        Team
            Of this rank's colour.

        Raises
        ------
        InvalidArgumentError
            On every rank, if a rank's argument is wrong.
        """
        return self._split("split", lambda: (colour, key, ()), channels)

    def _split(self, call: str, choose: Callable[[], Choice], channels: int) -> Team:
        """An exception of choose() here is raised on every rank: none is left waiting for the team."""
        wanted, order, named, error = -1, 0, "", None
        try:
            colour, key, numbers = choose()
            named = ",".join(map(str, numbers))
            wanted = -1 if colour is None else max(-1, _values.integer_of(colour, "colour"))
            order = _values.integer_of(key, "key")
            if _values.integer_of(channels, "channels") < 1:
                raise InvalidArgumentError(f"{call}: at least one channel, not {channels}")
        except (TypeError, InvalidArgumentError) as wrong:
            error = wrong
        mine = f"{','.join(map(str, self.ranks))} {wanted} {order} {named} {error or ''}"
        rows = [row.split(" ", 4) for row in self._home._all_gather("split", mine)]
        if error is not None:
            raise error
        for rank, row in enumerate(rows):
            if row[4]:
                raise InvalidArgumentError(f"{call}: rank {rank} has made no team: {row[4]}")
        _check_teams([row[0] for row in rows])
        _check_named(call, [(row[0], row[3]) for row in rows])
        mine_is = rows[self._home.rank]
        chosen = [
            (int(rows[rank][2]), member, rank)
            for member, rank in enumerate(self.ranks)
            if wanted >= 0 and self._members.rank >= 0 and rows[rank][1] == mine_is[1]
        ]
        return team_of(self._home, [rank for _, _, rank in sorted(chosen)], channels)

    def split_strided(self, first: int, step: int, count: int, *, channels: int = 1) -> Team:
        """Members first, first + step, ..., `count` of them. Collective over the world."""

        def choose() -> Choice:
            begin = _values.integer_of(first, "first")
            by, number = _values.integer_of(step, "step"), _values.integer_of(count, "count")
            size, last = self._members.size, begin + by * (number - 1)
            if size > 0 and (number < 1 or not 0 <= begin < size or not 0 <= last < size or (by == 0 and number > 1)):
                raise InvalidArgumentError(
                    f"split_strided: members {begin}, {begin + by}, ... {number} of them, of a team of {size}"
                )
            members = [begin + by * i for i in range(number)] if size > 0 else []
            named = (begin, by, number)
            mine = self._members.rank
            return (0, members.index(mine), named) if mine in members else (None, 0, named)

        return self._split("split_strided", choose, channels)

    def split_2d(self, width: int, *, channels: int = 1) -> tuple[Team, Team]:
        """The members as rows of `width`: my row and my column. The last row may be shorter. Collective over the world."""

        def place() -> tuple[int, int, int]:
            wide = _values.integer_of(width, "width")
            if wide < 1:
                raise InvalidArgumentError(f"split_2d: rows of {wide} members; at least 1")
            return self._members.rank // wide, self._members.rank % wide, wide

        def row() -> Choice:
            down, along, wide = place()
            return (None, 0, (wide,)) if self._members.rank < 0 else (down, along, (wide,))

        def column() -> Choice:
            down, along, wide = place()
            return (None, 0, (wide,)) if self._members.rank < 0 else (along, down, (wide,))

        return self._split("split_2d", row, channels), self._split("split_2d", column, channels)


class Team(Teams):
    """Some ranks of a world, numbered from 0, that do collectives together. Made by World.team() and the splits."""

    def __init__(self, world: World, members: _core.Team) -> None:
        self._world = world
        self._members = members

    @property
    def _home(self) -> World:
        return self._world

    @property
    def rank(self) -> int:
        """This rank's number in the team; -1: not in it."""
        return self._members.rank

    @property
    def size(self) -> int:
        """How many ranks it has."""
        return self._members.size

    def sync(self) -> None:
        """Blocks until the host of every member has come here; enqueued work does not matter. Collective over the team."""
        self._members.meet()

    def barrier(self, *, channel: int = 0, stream: Any = None) -> None:
        """A barrier of the ranks' streams: work behind it on any stream runs after all streams' work before it."""
        self._members.run(self._barrier_call(channel), [], stream, None)

    def __repr__(self) -> str:
        if self._world.closed:
            return "<Team: its world is closed>"
        if self.rank < 0:
            return f"<Team: of {self.ranks}, without this rank>"
        return f"<Team: rank {self.rank} of {self.ranks}>"


def _check_teams(teams: list[str]) -> None:
    """Every rank calls with the team that its members call with; the same error on every rank if not."""
    for rank, team in enumerate(teams):
        for member in map(int, filter(None, team.split(","))):
            if teams[member] != team:
                raise InvalidArgumentError(
                    f"split: rank {rank} splits the team of ranks [{team}], but rank {member}, which is in it, that of "
                    f"[{teams[member]}]; every rank of the world calls it on its own team"
                )


def _check_named(call: str, rows: list[tuple[str, str]]) -> None:
    """The members of each team name the same numbers; the same error on every rank if not."""
    of_team: dict[str, tuple[int, str]] = {}
    for rank, (team, named) in enumerate(rows):
        first, theirs = of_team.setdefault(team, (rank, named))
        if team and named != theirs:
            raise InvalidArgumentError(
                f"{call}: rank {first} names {theirs}, but rank {rank} names {named}; all members of a team name the same"
            )


def team_of(world: World, ranks: Sequence[int], channels: int) -> Team:
    """The team of these ranks of the world, which every rank of the world calls with its own, or with none."""
    return Team(
        world,
        _core.make_team(
            world, [_values.rank_of(rank, "a rank") for rank in ranks], _values.rank_of(channels, "channels")
        ),
    )


def _numbers(size: int) -> str:
    return f"members 0 to {size - 1}" if size > 0 else "none"
