"""Messages whose sender or size is unknown, and waits for any of several requests: methods of World, and Message.

The host looks and waits in all of them: none can be put on a stream or captured. A probe sees a message once its header
has come; its bytes may still be with the sender.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import _core, _types, _values
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from .world import World

any_source: Final = -(2**31)
"""The peer of a recv, irecv or probe that takes the message of any rank, this one included: the one that is there
first, and of several the next rank's in turn. Messages of one rank with one tag keep their order. Once all other ranks
have left, a call takes the messages that have come, this rank's own too, and else raises as one from a rank that left."""


class Message:
    """A message that has come, and its holder's alone: `peer`, `tag` and `nbytes`. Made by World.probe() and iprobe().

    Until recv() has received it, no other receive or probe gets it: those of its peer and tag in other threads wait,
    and in the thread that probed it they raise InvalidArgumentError. Let go of unreceived (release(), or the object's
    end), it is the next message of its peer and tag again.
    """

    __slots__ = ("_matched", "_world", "nbytes", "peer", "tag")

    def __init__(self, world: World, peer: int, tag: int, nbytes: int, matched: _core.Matched | None) -> None:
        self.peer, self.tag, self.nbytes = peer, tag, nbytes
        self._world = world
        self._matched = matched

    def recv(self, buffer: Any = None, *, dtype: Any = None) -> Any:
        """Receives this message and returns the array: `buffer`, whose front it fills, or a new numpy array.

        The new array has one dimension and elements of `dtype`, uint8 if none is given. A buffer that is too small, or
        a dtype whose size does not divide the message's, raises InvalidArgumentError, and the message stays. Blocks
        until the data is there.
        """
        if self._matched is None:
            raise InvalidArgumentError(f"recv: this {self!r} was received, or let go of, already")
        if buffer is None:
            buffer = self._new_array("uint8" if dtype is None else dtype)
        elif dtype is not None:
            raise InvalidArgumentError("recv: dtype is that of a new array, but there is a buffer; give one of them")
        self._world._recv_matched(self._matched, buffer)
        self._matched = None
        return buffer

    def release(self) -> None:
        """Lets go of the message. One that is not received is the next of its peer and tag again."""
        self._matched = None

    def _new_array(self, dtype: Any) -> Any:
        each = _types.item_bytes_of(dtype)
        if each == 0 or self.nbytes % each != 0:
            raise InvalidArgumentError(
                f"recv: a message of {self.nbytes} B from rank {self.peer} with tag {self.tag} is no whole number of "
                f"elements of {_types.type_name_of(dtype)}, which have {each} B"
            )
        return np.empty(self.nbytes // each, np.dtype(dtype))

    def __repr__(self) -> str:
        state = "" if self._matched is None else ", to be received"
        return f"<Message: {self.nbytes} B from rank {self.peer} with tag {self.tag}{state}>"


class Probes:
    """The part of World that looks ahead, and that waits for several requests."""

    @property
    def _home(self) -> World:
        raise NotImplementedError

    def probe(self, peer: int = any_source, *, tag: int = 0) -> Message:
        """Waits for the next message with this tag that no receive was posted for, and returns it unreceived.

        Parameters
        ----------
        peer : int
            Rank of the sender, or `any_source`.
        tag : int
            The message's.

        Returns
        -------
        Message
            With its `peer` and `nbytes`; its recv() receives just that message.

        Raises
        ------
        TimeoutError, AbortedError, ClosedError
            At the deadline, when the world has failed, once nothing more can come.
        """
        home = self._home
        matched = home._probe(_values.rank_of(peer, "peer"), _values.rank_of(tag, "tag"))
        return Message(home, matched.peer, matched.tag, matched.nbytes, matched)

    def iprobe(self, peer: int = any_source, *, tag: int = 0) -> Message | None:
        """The next message, as probe(), if it has come; else None, also while another call receives there, or another
        Message is held. Never blocks. Raises ClosedError once nothing more can come, as the peer has left the world.
        """
        home = self._home
        matched = home._iprobe(_values.rank_of(peer, "peer"), _values.rank_of(tag, "tag"))
        return None if matched is None else Message(home, matched.peer, matched.tag, matched.nbytes, matched)

    def recv_new(self, peer: int = any_source, *, tag: int = 0, dtype: Any = "uint8") -> Any:
        """Receives the next message into a new numpy array, however long it is. probe() tells the sender, too.

        Parameters
        ----------
        peer : int
            Rank of the sender, or `any_source`.
        tag : int
            The message's.
        dtype : dtype
            Of the new array's elements.

        Returns
        -------
        numpy.ndarray
            Of one dimension.

        Raises
        ------
        InvalidArgumentError
            The size of an element does not divide the message's; the message stays.
        """
        return self.probe(peer, tag=tag).recv(dtype=dtype)

    def wait_any(self, requests: Iterable[_core.Request]) -> int:
        """Waits until one of the requests has ended, and returns its place; the first of several. The host waits.

        Raises if that one ended badly, and as Request.wait() does at its deadline. Requests that have ended before
        count: take them out of the list. An empty list raises InvalidArgumentError.

        Parameters
        ----------
        requests : iterable of Request
            Of isend() and irecv(), one at least.

        Returns
        -------
        int
            The place in the list of the first that has ended.

        Raises
        ------
        TruncatedError, TimeoutError, AbortedError
            As wait() of that request.
        """
        return self._home._wait_any(list(requests))

    def wait_some(self, requests: Iterable[_core.Request]) -> list[int]:
        """As wait_any(), but returns the places of all requests that have ended by then, at least one."""
        return self._home._wait_some(list(requests))

    def test_any(self, requests: Iterable[_core.Request]) -> int | None:
        """The place of the first request that has ended, or None. Never blocks; raises if that one ended badly."""
        return self._home._test_any(list(requests))

    def test_all(self, requests: Iterable[_core.Request]) -> bool:
        """Whether all requests have ended. Never blocks; raises if all have, and one badly."""
        return self._home._test_all(list(requests))

    def _recv_any(self, array: Any, tag: int, path: str, stream: Any, layout: Any) -> Message:
        request = self._home.irecv(array, any_source, tag=tag, path=path, stream=stream, layout=layout)
        request.wait()
        return Message(self._home, request.peer, request.tag, request.received, None)
