"""Context: one-sided ops that the host issues, on symmetric memory. Made by World.context().

The caller names memory of another rank by the same place in this rank's own part: a SymmetricArray, or a view of this
rank's part of a segment, of any strides. A blocking call is done when it returns: the bytes it put are in the target's
memory. put_later() and get_later() are done after quiet(); until then the local array must stay as it is, and the
context keeps it and the symmetric memory alive. A context does not wait for streams: the program must wait for work
that a stream still does on an array. One thread at a time uses a context; several may be used at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _arrays, _core, _values
from .errors import InvalidArgumentError
from .symmetric import SymmetricArray, atomic_bits, counter_address, elements_of, flags_of, told_bits, value_of

if TYPE_CHECKING:
    from .teams import Team
    from .world import World


class Context:
    """One-sided ops that the host issues. `to` before `source`; `rank` is the other one's."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._core = _core.make_context(world)

    def __repr__(self) -> str:
        if self._world.closed:
            return "<Context: its world is closed>"
        return f"<Context: rank {self._world.rank} of {self._world.size}>"

    # --- data ---

    def put(self, to: Any, source: Any, rank: int, *, signal: Any = None, value: int = 1, op: str = "add") -> None:
        """Copies `source` to where `to` lies in rank's part: as many elements of one type, of any strides on both sides.

        Shapes may differ: element by element, both in row-major order.
        With `signal`, one symmetric integer of 8 bytes, that word of rank's is then changed by `value` (op "add" or
        "set"): a rank that waits for the word then sees the data.
        """
        self._put(to, source, rank, signal, value, op, later=False)

    def put_later(
        self, to: Any, source: Any, rank: int, *, signal: Any = None, value: int = 1, op: str = "add"
    ) -> None:
        """put(), done after quiet()."""
        self._put(to, source, rank, signal, value, op, later=True)

    def get(self, to: Any, source: Any, rank: int) -> None:
        """Fills `to` from where `source` lies in rank's part: as many elements of one type, as put()."""
        self._get(to, source, rank, later=False)

    def get_later(self, to: Any, source: Any, rank: int) -> None:
        """get(), done after quiet()."""
        self._get(to, source, rank, later=True)

    # --- words ---

    def signal(self, word: Any, rank: int, *, value: int = 1, op: str = "add") -> None:
        """Changes a symmetric integer of 8 bytes of rank's, after this context's earlier puts to that rank."""
        elements = self._word(word)
        self._core.signal(elements, _values.rank_of(rank), told_bits(value, op, elements.dtype), op)

    def wait(self, word: Any, value: int, *, compare: str = "ge") -> None:
        """Waits until this rank's own word compares with `value`: eq, ne, gt, ge, lt or le.

        Words are integers of 4 or 8 bytes of any memory of this rank. A wait that passes the deadline fails the world.
        """
        self.wait_all(self._one(word), value, compare=compare)

    def wait_all(self, words: Any, value: int, *, compare: str = "ge", leave_out: Sequence[bool] | None = None) -> None:
        """Waits until all words compare, except those that `leave_out` (true: left out) names."""
        self._core.wait_all(*self._condition(words, value, compare, leave_out))

    def wait_any(
        self, words: Any, value: int, *, compare: str = "ge", leave_out: Sequence[bool] | None = None
    ) -> int | None:
        """Waits until one of the words compares. Returns its index; None if all are left out."""
        condition = self._condition(words, value, compare, leave_out)
        return _index(self._core.wait_any(*condition), condition[0])

    def wait_some(
        self, words: Any, value: int, *, compare: str = "ge", leave_out: Sequence[bool] | None = None
    ) -> list[int]:
        """Waits until one of the words compares. Returns the indices of all that do then; none if all are left out."""
        return self._core.wait_some(*self._condition(words, value, compare, leave_out))

    def test(self, word: Any, value: int, *, compare: str = "ge") -> bool:
        """Whether the word compares now. If so, the caller sees all bytes that were put before the word was set."""
        return self.test_any(self._one(word), value, compare=compare) is not None

    def test_any(
        self, words: Any, value: int, *, compare: str = "ge", leave_out: Sequence[bool] | None = None
    ) -> int | None:
        """The index of a word that compares now, or None."""
        condition = self._condition(words, value, compare, leave_out)
        return _index(self._core.test_any(*condition), condition[0])

    def test_some(
        self, words: Any, value: int, *, compare: str = "ge", leave_out: Sequence[bool] | None = None
    ) -> list[int]:
        """The indices of all words that compare now."""
        return self._core.test_some(*self._condition(words, value, compare, leave_out))

    # --- atomics of one word: done, at the target, when they return the old value, an integer but where floats may be ---

    def fetch(self, word: Any, rank: int) -> Any:
        """Returns a word of rank's part: an integer or a float of 4 or 8 bytes."""
        return self._atomic("fetch", word, rank)

    def set(self, word: Any, value: Any, rank: int) -> None:
        """Stores a word, an integer or a float."""
        self._atomic("set", word, rank, value)

    def swap(self, word: Any, value: Any, rank: int) -> Any:
        """Stores a word, an integer or a float, and returns the old value."""
        return self._atomic("swap", word, rank, value)

    def compare_swap(self, word: Any, expected: int, value: int, rank: int) -> Any:
        """Stores `value` if the word is `expected`; returns the old value."""
        return self._atomic("compare_swap", word, rank, value, expected)

    def fetch_add(self, word: Any, value: int, rank: int) -> Any:
        """Adds `value`; returns the old value."""
        return self._atomic("add", word, rank, value)

    def fetch_inc(self, word: Any, rank: int) -> Any:
        """Adds one; returns the old value."""
        return self._atomic("add", word, rank, 1)

    def fetch_and(self, word: Any, value: int, rank: int) -> Any:
        """Ands with `value`, bit by bit; returns the old value."""
        return self._atomic("and", word, rank, value)

    def fetch_or(self, word: Any, value: int, rank: int) -> Any:
        """Ors with `value`, bit by bit; returns the old value."""
        return self._atomic("or", word, rank, value)

    def fetch_xor(self, word: Any, value: int, rank: int) -> Any:
        """Xors with `value`, bit by bit; returns the old value."""
        return self._atomic("xor", word, rank, value)

    # --- order ---

    def fence(self) -> None:
        """Orders puts: each rank sees this context's earlier puts before its later ones."""
        self._core.fence()

    def quiet(self) -> None:
        """Completes all its ops: gets have arrived here, puts are in the targets' memory."""
        self._core.quiet()

    def barrier(self, team: Team | World | None = None) -> None:
        """quiet(), and the hosts of all ranks of the team (without one: of the world) have come. Collective over it."""
        self.quiet()
        (self._world if team is None else team).sync()

    # --- detail ---

    def _put(self, to: Any, source: Any, rank: int, signal: Any, value: int, op: str, *, later: bool) -> None:
        local = _arrays.checked_span(source, False, self._world)
        place, owners = self._place(to), [_owner_of(to), local.owner]
        _values.check_same_type("put", place.dtype, local.dtype)
        word, bits = None, 0
        if signal is not None:
            counter = self._word(signal)
            word, bits = counter.address, told_bits(value, op, counter.dtype)
            owners.append(_owner_of(signal))
        self._core.put(place, elements_of(local), _values.rank_of(rank), owners, word, bits, op, later)

    def _get(self, to: Any, source: Any, rank: int, *, later: bool) -> None:
        local = _arrays.checked_span(to, True, self._world)
        place, owners = self._place(source), [_owner_of(source), local.owner]
        _values.check_same_type("get", local.dtype, place.dtype)
        self._core.get(elements_of(local), place, _values.rank_of(rank), owners, later)

    def _place(self, place: Any) -> _core.Elements:
        if isinstance(place, SymmetricArray):
            return place.elements()
        return elements_of(_arrays.checked_span(place, False, self._world))

    def _one(self, word: Any) -> _core.Elements:
        elements = self._place(word)
        if elements.count != 1:
            raise InvalidArgumentError(f"one word, but this array has {elements.count} elements; index it with a slice")
        return elements

    def _counter(self, word: Any) -> int:
        if isinstance(word, SymmetricArray):
            return counter_address(word)
        elements = self._one(word)
        if elements.dtype not in ("int64", "uint64"):
            raise InvalidArgumentError(f"a signal is one symmetric integer of 8 bytes, not of type {elements.dtype}")
        return elements.address

    def _word(self, word: Any) -> _core.Elements:
        self._counter(word)
        return self._place(word)

    def _condition(
        self, words: Any, value: int, compare: str, leave_out: Sequence[bool] | None
    ) -> tuple[_core.Elements, str, int, list[int]]:
        elements = words if isinstance(words, _core.Elements) else self._place(words)
        bits = _values.word_of_type(value, elements.dtype, "value")
        flags = flags_of(leave_out, elements.count)
        if leave_out is not None and not flags and elements.count > 0:
            raise InvalidArgumentError("leave_out lies in a GPU's memory, which a wait of the host does not read")
        return elements, compare, bits, flags

    def _atomic(self, op: str, word: Any, rank: int, value: Any = 0, expected: Any = 0) -> Any:
        elements = self._one(word)
        name = elements.dtype
        bits = atomic_bits(op, name, value, expected)
        return value_of(self._core.atomic(op, elements, _values.rank_of(rank), *bits), name)


def _owner_of(place: Any) -> Any:
    """The object that keeps this symmetric memory alive."""
    return place.piece.blocks if isinstance(place, SymmetricArray) else place


def _index(found: int, words: _core.Elements) -> int | None:
    return None if found == words.count else found
