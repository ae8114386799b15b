"""null: the rank that is nobody, as MPI_PROC_NULL."""

from __future__ import annotations


class Null(int):
    """The peer that is nobody, at the open edge of a grid: a message to or from it is none.

    send() and isend() to it, and recv() and irecv() from it, do nothing and return at once; a receive has 0 bytes and
    leaves its array. sendrecv() with it does the other half alone. A plan's send() and recv() add nothing, and an object
    from it is None. It is the integer -1, which every other call refuses, as it refuses -1 itself.
    """

    def __new__(cls) -> Null:
        return super().__new__(cls, -1)

    def __reduce__(self) -> str:
        return "null"  # there is one: also a copy, and one that was unpickled

    def __repr__(self) -> str:
        return "onstream.null"

    __str__ = __repr__


null = Null()
