"""The compiled part of onstream. Import onstream instead."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy
from numpy.typing import NDArray

import onstream.probes


class Block:
    """
    A piece of onstream's memory; it lives as long as this object or an array over it.
    """

    @property
    def address(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def on_host(self) -> bool:
        """Whether the CPU may load and store it."""

    @property
    def device_index(self) -> int: ...

    def part(self, offset: int, nbytes: int) -> Block:
        """A piece of it, which keeps all of it alive."""

    def bytes_view(self) -> NDArray[numpy.uint8]:
        """The block as a numpy array of bytes. Only if on_host."""

    def exchange(self, shape: Sequence[int], dtype_code: int, dtype_bits: int) -> Any:
        """The block as a DLPack producer on cuda."""

class Import:
    """
    A foreign array, as DLPack describes it; it stays alive as long as this object.
    """

    @property
    def address(self) -> int: ...

    @property
    def shape(self) -> list[int]: ...

    @property
    def strides(self) -> list[int]:
        """In bytes."""

    @property
    def item_bytes(self) -> int: ...

    @property
    def read_only(self) -> bool: ...

    @property
    def device(self) -> tuple[int, int]: ...

def address_of(array: object) -> int | None:
    """
    Where an array's elements begin; None if it exports no buffer, as numpy's of some types do not.
    """

def import_dlpack(array: object) -> Import:
    """Describes any object with __dlpack__."""

class Layout:
    """
    How the elements of a message lie in a buffer: offsets in bytes, in the order of the data.

    Elements (`of`) are a number of bytes, a dtype (of a record its fields, without the bytes between them), or a
    Layout; those that follow each other are an extent apart. Layouts are values and nest to any depth. Two are
    equal if they have the same bytes in the same order, however they were made; bounds are not compared.
    Wrong sizes raise InvalidArgumentError.
    """

    @staticmethod
    def contiguous(count: int, of: object) -> Layout:
        """`count` elements, one behind the other."""

    @staticmethod
    def vector(count: int, blocklength: int, stride: int, of: object) -> Layout:
        """
        `count` blocks of `blocklength` elements, which begin `stride` elements apart.
        """

    @staticmethod
    def hvector(count: int, blocklength: int, stride_bytes: int, of: object) -> Layout:
        """As vector(), of blocks that begin `stride_bytes` apart."""

    @staticmethod
    def subarray(shape: object, subshape: object, start: object, of: object, *, order: str = 'C') -> Layout:
        """
        The box of `subshape` elements that begins at index `start` of an array of `shape`. Its extent is the array's.
        In order 'C' the last index is fastest, in memory and in the data; in order 'F' the first.
        """

    @staticmethod
    def indexed(blocklengths: object, offsets: object, of: object) -> Layout:
        """Blocks of so many elements each, at `offsets` in elements."""

    @staticmethod
    def indexed_block(blocklength: int, offsets: object, of: object) -> Layout:
        """Blocks of `blocklength` elements, at `offsets` in elements."""

    @staticmethod
    def struct(fields: Sequence[tuple[int, object]]) -> Layout:
        """
        Fields of different elements: pairs of an offset in bytes and elements, in their order.
        """

    @staticmethod
    def of(array: object, *, within: object | None = None) -> Layout:
        """
        Of an array's elements, such as a slice's: of any strides, relative to its first element; or, with
        `within`, to the begin of the array that it is a view of.
        """

    def resized(self, lower_bound: int, extent: int) -> Layout:
        """
        The same data with other bounds, in bytes: the next element begins `extent` further.
        """

    def moved(self, nbytes: int) -> Layout:
        """The same data and bounds, so many bytes further."""

    def canonical(self) -> Layout:
        """
        The form that equal layouts have alike: of runs as long as possible, and with no bounds but the data's.
        """

    @property
    def nbytes(self) -> int:
        """Bytes of data, without gaps."""

    @property
    def lower_bound(self) -> int:
        """Where the element begins, as its neighbours count."""

    @property
    def extent(self) -> int:
        """Bytes from one element to the next."""

    @property
    def true_lower_bound(self) -> int:
        """The first byte of the data."""

    @property
    def true_extent(self) -> int:
        """Bytes from the first byte of the data to the last."""

    @property
    def is_contiguous(self) -> bool:
        """Whether the data has no gaps."""

    @property
    def overlaps_itself(self) -> bool:
        """Whether two of its blocks share a byte: then it is no destination."""

    def pack(self, array: object) -> object:
        """
        The data out of a contiguous array of the host, as a new array of bytes.
        """

    def unpack(self, data: object, array: object) -> None:
        """
        Writes such bytes into a contiguous array of the host, at their places.
        """

    def to_json(self) -> str:
        """The layout as a JSON text, for from_json()."""

    @staticmethod
    def from_json(text: str) -> Layout:
        """The layout of such a text. Raises InvalidArgumentError for any other."""

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __getstate__(self) -> str: ...

    def __setstate__(self, arg: str, /) -> None: ...

    def __repr__(self) -> str: ...

def captures() -> bool:
    """Whether this thread is inside a capture()."""

class Stream:
    """A queue of work on a world's device. Made by World.stream()."""

    def synchronize(self) -> None:
        """
        Blocks until all work enqueued so far has finished; then raises if the world has failed
        or a message did not end well: this world, or another one whose work is on the stream. Ctrl-C works.
        """

    @property
    def idle(self) -> bool:
        """Whether all enqueued work has finished."""

    @property
    def handle(self) -> int:
        """The device's own handle: a cudaStream_t on cuda."""

    def __repr__(self) -> str: ...

    def __cuda_stream__(self) -> tuple[int, int]: ...

    def _begin_capture(self) -> None: ...

    def _end_capture(self, graph: Graph) -> None: ...

    def _drop_capture(self, graph: Graph, why: str) -> None: ...

class Graph:
    """
    Captured work of one stream, launched any number of times. Made by World.capture().
    """

    def __init__(self) -> None: ...

    def launch(self, stream: object | None = None) -> None:
        """
        Enqueues everything that was captured, on the stream that it was captured on if none is given. Does not
        block. Raises if the world has failed.
        """

def wait_all(requests: list, stream: object | None) -> None:
    """Use World.wait_all()."""

class Request:
    """A message on its way. Made by World.isend() and World.irecv()."""

    def wait(self, stream: object | None = None) -> None:
        """
        Completes the message where it was posted. Posted without a stream (host arrays): blocks until it has ended,
        as MPI_Wait does, and raises if it ended badly. Posted on a stream: enqueues the wait there and returns at
        once, also for host arrays; the data is there for later work of that stream, and for the host after
        stream.synchronize(). wait(stream) enqueues it on another stream; wait('host') blocks in any case.
        Waiting again is allowed: it returns, or raises, the same once more.
        """

    def test(self) -> bool:
        """
        Whether the message has ended; raises if it ended badly. Does not block.
        """

    def done(self) -> bool:
        """
        Whether the message has ended, well or badly: wait() and test() then raise the error. Does not block.
        """

    def __await__(self) -> Generator[object, None, int]:
        """
        `await request`: the message's bytes, once it has ended. Other tasks of the event loop run meanwhile.
        Raises as wait(), and TimeoutError after timeout_s. A task that is cancelled, or whose asyncio.timeout()
        passes, leaves the request as it is, under way: await it again, or wait().
        """

    @property
    def _timeout_s(self) -> float: ...

    @property
    def received(self) -> int:
        """Bytes of the message that came, once it has ended."""

    @property
    def peer(self) -> int:
        """
        Of an irecv from any_source the sender, once wait() on the host, or test(), has returned.
        """

    @property
    def tag(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """Size of the buffer."""

    def __repr__(self) -> str: ...

class Launch:
    """This process's rank in the job, and where the job meets."""

    def __init__(self, rank: int, size: int, port: int, secret: str, address: str = '127.0.0.1', *, local_rank: int | None = None, local_size: int | None = None) -> None:
        """
        The ranks of a job meet at `address`, a host with `port`, or unix:NAME for ranks of one host. Each names its
        number among the ranks of its host, and how many they are; without: all ranks are on one host.
        """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def local_rank(self) -> int: ...

    @property
    def local_size(self) -> int: ...

    @property
    def address(self) -> str: ...

    @property
    def port(self) -> int: ...

    def without(self, ranks: Iterable[int]) -> Launch:
        """
        The launch of the same job without ranks that have died, for a new world of the others. They are numbered
        anew, in their old order; each must name the same ranks.
        """

    @property
    def launcher(self) -> str: ...

    def __repr__(self) -> str: ...

def launch_from_environment() -> Launch:
    """
    This process's Launch, as its launcher (onstream run, torchrun, mpirun, srun) tells it.
    """

def _end_with_failure() -> None:
    """The process, which is ending, ends with exit status 1."""

class Fault:
    """One operation that did not end well, on one rank."""

    @property
    def rank(self) -> int:
        """Where the operation ran."""

    @property
    def status(self) -> str: ...

    @property
    def op(self) -> str: ...

    @property
    def peer(self) -> int: ...

    @property
    def tag(self) -> int:
        """Of a message, or the channel of a collective."""

    @property
    def plan(self) -> str:
        """The plan's name; '' if it was none of a plan."""

    @property
    def plan_op(self) -> int:
        """Which of the plan's operations, in the order added; else -1."""

    @property
    def nbytes(self) -> int: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class Failure:
    """Why a world is broken."""

    @property
    def reason(self) -> str:
        """The first cause."""

    @property
    def faults(self) -> list[Fault]:
        """The reports of every rank, this rank's own first."""

    @property
    def dead(self) -> list[int]:
        """Ranks that have died, as far as this rank has heard."""

    @property
    def left(self) -> list[int]:
        """Ranks that had closed the world, or ended, before it failed."""

    @property
    def story(self) -> str:
        """All of it, for the screen."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class World:
    """
    The ranks of a job and all they share. Use onstream.World, which adds arrays.
    """

    def __init__(self, launch: Launch | None, parameters: Mapping[str, str]) -> None: ...

    @property
    def rank(self) -> int:
        """This rank's number, 0 to size - 1. Also once closed."""

    @property
    def size(self) -> int:
        """How many ranks the job has. Also once closed."""

    @property
    def launch(self) -> Launch:
        """This rank's place in the job, from its launcher. Also once closed."""

    @property
    def device(self) -> str:
        """Where this rank's work runs: "host", or "cuda:N"."""

    @property
    def closed(self) -> bool:
        """Also in a forked child, which makes a world of its own."""

    def close(self) -> None:
        """
        Waits for the work enqueued through this world, then leaves it; then raises the error of that work which no call
        has told yet. Calls of other threads that still wait behind that work end with ClosedError. Idempotent; not
        collective.
        """

    def allocate(self, nbytes: int, *, kind: str = 'device') -> Block:
        """
        Zeroed memory, which peers reach directly unless it is plain host memory. World.empty() gives it as an array.
        """

    def place_of(self, address: int) -> str:
        """Where an address lies: cuda:N, pinned, managed or host."""

    def stream(self) -> Stream:
        """A new stream of this world's device."""

    def barrier(self, *, stream: object | None = None) -> None:
        """
        Blocks until every rank's host has come here. With a stream it does not block: the stream goes on once every
        rank's stream has come, and sees what each had stored before; may be captured. Collective.
        """

    def synchronize(self, stream: object | None = None) -> None:
        """
        Blocks until the stream's work has finished, then raises if the world has failed or a message did not end
        well. Without a stream: the work so far of all streams of the world, of others that it has enqueued on, and of
        the device's default stream.
        """

    def abort(self, reason: str, *, interrupt: bool = False) -> None:
        """
        Ends the world on every rank: streams drain. An interrupt by the user is logged at debug level only.
        """

    def check(self) -> None:
        """
        Raises the world's failure, or the oldest fault of a message that nobody has been told of yet.
        """

    def failure(self) -> Failure | None:
        """Why the world failed, or None."""

    def take_faults(self) -> list[Fault]:
        """
        Faults that did not fail the world (truncated, unmapped), oldest first; each is given once.
        """

    def describe(self) -> str:
        """Ranks, devices, memory held, registrations."""

    def paths(self) -> str:
        """
        The rules by which this world takes paths and algorithms, one a line, in the format of path_file.
        """

    def statistics(self) -> dict[str, int]:
        """
        The library's counters and memory. registration_...: how look-ups of buffers for peers ended (refused:
        memory that cannot leave its process; stale: freed since). exported: this rank's memory that peers map; imported:
        peers' memory that this rank maps. message_bytes, segment_bytes: device memory of the library's own.
        """

    def _all_gather(self, topic: str, mine: str) -> list[str]: ...

    def send(self, array: object, peer: int, *, tag: int = 0, path: str = 'auto', stream: object | None = None, layout: Layout | None = None) -> None:
        """
        Sends an array: contiguous, or of any strides, or the bytes of a contiguous one that `layout` names
        (docs/layouts.md). On a stream it does not block, and the array may be reused by later work of that
        stream. Without a stream: on the current stream of a torch or cupy device array; for a host array it blocks
        until the array may be reused. stream='host' blocks for any array. In a capture() the captured stream is
        the default. Only bytes travel: the receiver's element type is not compared with the sender's.
        A small message runs ahead of its receive; a larger one (ll_max_bytes, host_ll_max_bytes) waits for it. Ranks
        that all send first and receive then may wait for each other: post the receive before (irecv), or sendrecv().
        """

    def recv(self, array: object, peer: int, *, tag: int = 0, path: str = 'auto', stream: object | None = None, layout: Layout | None = None) -> int | onstream.probes.Message | None:
        """
        Receives into an array, of any strides or by a `layout`, ordered as send() is. Returns the message's bytes if it blocked, else
        None. From any_source it must block, and returns the Message, received, which tells the sender. A larger
        message raises TruncatedError; the next messages are intact. A smaller one fills the front of the array;
        an array with gaps, or a layout, takes no smaller message, which raises TruncatedError too.
        Only bytes travel, of any element types.
        """

    def sendrecv(self, send_array: object, dest: int, recv_array: object, source: int, *, tag: int = 0, path: str = 'auto', stream: object | None = None, send_layout: Layout | None = None, recv_layout: Layout | None = None) -> int | None:
        """
        Sends one array to rank `dest` and receives another from rank `source` at the same time: neither waits for the
        other, so all ranks of a ring may call it. Its halves match plain sends and receives of the tag. Ordered as
        send() is, and one kernel on cuda. Returns the received message's bytes if it blocked, else None; raises as
        send() and recv() do, once both halves have ended. The arrays must not overlap,
        unless one has gaps, or a layout: then what is sent is copied first.
        """

    def isend(self, array: object, peer: int, *, tag: int = 0, path: str = 'auto', stream: object | None = None, layout: Layout | None = None) -> Request:
        """
        Starts a send; complete it with Request.wait(). Do not change the array before. Only bytes travel. It does
        not wait for its receive; on a stream, and by path ll, a small one waits once those under way fill the
        tag's ring, so post receives before, or use sendrecv().
        """

    def irecv(self, array: object, peer: int, *, tag: int = 0, path: str = 'auto', stream: object | None = None, layout: Layout | None = None) -> Request:
        """
        Starts a receive; complete it with Request.wait(). From one rank, with one tag, tag_receives (64) may be
        posted and not waited for; one more raises InvalidArgumentError, and nothing else happens. Only bytes travel.
        From any_source the host posts and waits: it takes a message when a wait or a test asks for it, in posting
        order among those of its tag; receives from a named rank that are called before that come first.
        """

    def _explain_send(self, array: object | None, peer: object | None, tag: object | None, path: object | None) -> str: ...

    def _probe(self, peer: int, tag: int) -> Matched: ...

    def _iprobe(self, peer: int, tag: int) -> Matched | None: ...

    def _recv_matched(self, matched: Matched, array: object) -> None: ...

    def _wait_any(self, requests: list[Request]) -> int: ...

    def _wait_some(self, requests: list[Request]) -> list[int]: ...

    def _test_any(self, requests: list[Request]) -> int | None: ...

    def _test_all(self, requests: list[Request]) -> bool: ...

    def _segment(self, nbytes: int, kind: str) -> SegmentBlocks: ...

class Matched:
    """A message that World._probe() found and that nobody else receives."""

    @property
    def peer(self) -> int: ...

    @property
    def tag(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

class SegmentBlocks:
    """A segment's parts, one a rank, and the one-sided ops on them."""

    def local(self) -> Block: ...

    def peer(self, rank: int) -> Block: ...

    def direct(self, rank: int) -> bool: ...

    def why_not(self, rank: int) -> str: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def kind(self) -> str: ...

    def put(self, array: object, rank: int, offset: int, signal: int | None, value: int, op: str, stream: object | None) -> None: ...

    def get(self, array: object, rank: int, offset: int, stream: object | None) -> None: ...

    def signal(self, rank: int, offset: int, value: int, op: str, stream: object | None) -> None: ...

    def wait(self, offset: int, value: int, compare: str, stream: object | None) -> None: ...

    def address_of(self, offset: int, nbytes: int) -> int:
        """This rank's own address of a piece."""

    def free(self) -> None: ...

def call_in_stream(world: World, function: object, name: str, stream: object | None) -> None:
    """Use World.call()."""

def follow(stream: Stream, natural: tuple[int, bool] | None) -> None:
    """Later work of the stream runs behind that of the arrays' library."""

class OpTime:
    """Where the time of one operation of a plan went, on the device's clock."""

    @property
    def what(self) -> str: ...

    @property
    def wait_ns(self) -> int:
        """Waiting for the peer, over all launches."""

    @property
    def move_ns(self) -> int:
        """Moving bytes, over all launches."""

    @property
    def launches(self) -> int: ...

    def __repr__(self) -> str: ...

class PlanOp:
    """One operation of a plan, and how its bytes travel."""

    @property
    def kind(self) -> str: ...

    @property
    def peer(self) -> int: ...

    @property
    def tag(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def layout(self) -> str: ...

    @property
    def note(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def why(self) -> str: ...

class Plan:
    """
    Operations compiled once and launched many times. Use World.plan() or World.halo().
    """

    def launch(self, stream: object | None, natural: tuple[int, bool] | None) -> None:
        """
        On a stream, or, with 'host', blocking. None: on the stream that this thread captures, on `natural`, or blocking.
        """

    def explain(self) -> str: ...

    def times(self) -> list[OpTime]: ...

    def reset_times(self) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def ops(self) -> list[PlanOp]: ...

    @property
    def kernels_per_launch(self) -> int: ...

class Elements:
    """Where the elements of an array lie."""

    def __init__(self, address: int, item_bytes: int, shape: Sequence[int], strides: Sequence[int], dtype: str) -> None: ...

    @property
    def address(self) -> int: ...

    @property
    def item_bytes(self) -> int: ...

    @property
    def dtype(self) -> str: ...

    @property
    def count(self) -> int: ...

class PlanBuilder:
    """Collects the operations of a plan. Use World.plan()."""

    def send(self, source: Elements, peer: int, tag: int, note: str) -> None: ...

    def recv(self, destination: Elements, peer: int, tag: int, note: str) -> None: ...

    def put(self, remote: Elements, source: Elements, peer: int, note: str) -> None: ...

    def get(self, destination: Elements, remote: Elements, peer: int, note: str) -> None: ...

    def signal(self, op: str, word: Elements, value: int, peer: int, note: str) -> None: ...

    def atomic(self, op: str, word: Elements, value: int, peer: int, old: int, expected: int, note: str) -> None: ...

    def wait(self, counter: int, value: int, note: str) -> None: ...

    def wait_until(self, word: Elements, compare: str, value: int, note: str) -> None: ...

    def halo(self, array: Elements, ghost: Sequence[int], grid: Sequence[int], periodic: Sequence[bool], corners: bool, tag: int) -> None: ...

    def refuse(self, why: str) -> None:
        """Lets build() raise on every rank."""

    def add(self, call: PlannedCall) -> None: ...

    def use_path(self, path: str) -> None: ...

    def build(self, arrays: object) -> Plan:
        """
        Collective: matches, validates and compiles. Ctrl-C works. The plan keeps `arrays` alive.
        """

def plan_builder(world: World, name: str) -> PlanBuilder: ...

def choose_grid(size: int, shape: Sequence[int]) -> list[int]:
    """
    Ranks per dimension for `size` ranks over a global array of `shape`, minimising the cells exchanged.
    """

def coordinates_of(rank: int, grid: Sequence[int]) -> list[int]:
    """A rank's place in a grid of ranks."""

def rank_at(coordinates: Sequence[int], grid: Sequence[int], periodic: Sequence[bool]) -> int:
    """The rank at a place of a grid; -1 outside a non-periodic one."""

class Many:
    """
    Which of many words a wait waits for, and where a stream leaves the answer.
    """

    def __init__(self, which: str, found: int = 0, indices: int = 0, left_out: int = 0) -> None: ...

class OneSided:
    """One-sided ops by address, on streams or blocking. Use SymmetricArray."""

    def put(self, to: Elements, source: Elements, rank: int, word: int | None, value: int, op: str, stream: object | None, natural: tuple[int, bool] | None, owners: object) -> None: ...

    def get(self, to: Elements, source: Elements, rank: int, stream: object | None, natural: tuple[int, bool] | None, owners: object) -> None: ...

    def signal(self, word: Elements, rank: int, value: int, op: str, stream: object | None, owners: object) -> None: ...

    def wait(self, many: Many, words: Elements, compare: str, value: int, left_out: Sequence[int], stream: object | None, owners: object) -> list[int] | None:
        """
        The indices that the host found, or of `any` the one (the number of words if all are left out).
        """

    def atomic(self, op: str, word: Elements, rank: int, value: int, expected: int, old: int, stream: object | None, owners: object) -> int | None:
        """The old value, or None on a stream."""

def one_sided_of(world: World) -> OneSided: ...

class Context:
    """One-sided ops that the host issues. Use World.context()."""

    def put(self, to: Elements, source: Elements, rank: int, owner: object, word: int | None, value: int, op: str, later: bool) -> None: ...

    def get(self, to: Elements, source: Elements, rank: int, owner: object, later: bool) -> None: ...

    def signal(self, word: Elements, rank: int, value: int, op: str) -> None: ...

    def wait_all(self, words: Elements, compare: str, value: int, left_out: Sequence[int]) -> None: ...

    def wait_any(self, words: Elements, compare: str, value: int, left_out: Sequence[int]) -> int:
        """The index; the number of words if all are left out."""

    def wait_some(self, words: Elements, compare: str, value: int, left_out: Sequence[int]) -> list[int]: ...

    def test_any(self, words: Elements, compare: str, value: int, left_out: Sequence[int]) -> int:
        """The index; the number of words if none compares."""

    def test_some(self, words: Elements, compare: str, value: int, left_out: Sequence[int]) -> list[int]: ...

    def atomic(self, op: str, word: Elements, rank: int, value: int, expected: int) -> int: ...

    def fence(self) -> None: ...

    def quiet(self) -> None: ...

def make_context(world: World) -> Context: ...

class HeapBlocks:
    """
    Pieces of symmetric memory, by this rank's addresses. Use World.heap().
    """

    def allocate(self, nbytes: int, alignment: int) -> int: ...

    def allocate_zeroed(self, nbytes: int, alignment: int) -> int: ...

    def reallocate(self, address: int, nbytes: int) -> int: ...

    def free(self, address: int) -> None: ...

    def close(self) -> None: ...

    def place(self, address: int) -> tuple[SegmentBlocks, int]:
        """The segment that an address lies in, and where."""

    def full_for(self, nbytes: int, alignment: int) -> bool: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def used(self) -> int: ...

    @property
    def pieces(self) -> int: ...

def make_heap(world: World, nbytes: int, grow_nbytes: int, kind: str) -> HeapBlocks:
    """Collective."""

class CollectiveCall:
    """
    A collective as the library takes it. Use World.all_reduce() and so on.
    """

    def __init__(self, kind: str, input: int, output: int, count: int, type: str) -> None: ...

    @property
    def kind(self) -> str: ...

    def set_options(self, op: str, root: int, channel: int, algorithm: str) -> None: ...

    def set_deterministic(self) -> None:
        """Refuses algorithms that add in another order than that of the ranks."""

    def set_factor(self, factor: float, int_factor: int) -> None: ...

    def set_combine(self, element_bytes: int, function: object) -> None: ...

    def set_counts(self, send_counts: Sequence[int], send_offsets: Sequence[int], receive_counts: Sequence[int], receive_offsets: Sequence[int]) -> None: ...

class PlannedCall:
    """A collective for a plan. Use PlanBuilder.collectives()."""

class Team:
    """
    The ranks that do collectives together. Use World.team(), or World itself.
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def ranks(self) -> list[int]: ...

    @property
    def checks(self) -> bool:
        """Whether all ranks compare every call before it runs."""

    def run(self, call: CollectiveCall, arrays: object, stream: object | None, natural: tuple[int, bool] | None) -> None:
        """
        On a stream, or, with 'host', blocking. None: on the stream that this thread captures, on `natural`, or blocking.
        """

    def run_plain(self, kind: str, array: object | None, out: object | None, op: object | None, root: object | None, channel: object | None, algorithm: object | None, stream: object | None) -> bool:
        """
        Runs a call of contiguous host arrays of numbers. False, and nothing is done, where arrays or options need a closer look.
        """

    def meet(self) -> None:
        """
        Blocks until the hosts of all ranks of the team have come; enqueued work does not matter.
        """

    def planned(self, call: CollectiveCall) -> PlannedCall:
        """For PlanBuilder.add."""

    def explain(self, call: CollectiveCall) -> str: ...

class Neighbourhood:
    """The edges along which ranks exchange. Use World.neighbourhood()."""

    @property
    def sources(self) -> list[int]: ...

    @property
    def destinations(self) -> list[int]: ...

    @property
    def checks(self) -> bool:
        """Whether both ends of an edge compare every call before it runs."""

    def run(self, call: CollectiveCall, arrays: object, stream: object | None, natural: tuple[int, bool] | None) -> None:
        """As Team.run."""

    def run_plain(self, kind: str, array: object | None, out: object | None, send_counts: object | None, receive_counts: object | None, send_offsets: object | None, receive_offsets: object | None, algorithm: object | None, stream: object | None) -> bool:
        """As Team.run_plain."""

    def planned(self, call: CollectiveCall) -> PlannedCall:
        """For PlanBuilder.add."""

def make_grid_neighbourhood(team: Team, dims: Sequence[int], periodic: Sequence[bool]) -> Neighbourhood:
    """Collective over the world."""

def make_graph_neighbourhood(team: Team, sources: Sequence[int], destinations: Sequence[int]) -> Neighbourhood:
    """Collective over the world."""

def world_team(world: World) -> Team:
    """The team of all ranks."""

def make_team(world: World, ranks: Sequence[int], channels: int) -> Team:
    """Collective over the world."""

def describe_rings(machine: bytes) -> str:
    """
    The edge-disjoint rings of a machine, a line each; its description is in onstream/topology/machine.hpp.
    """

def find_rings(machine: bytes) -> list[list[int]]:
    """The same as data: the GPUs of each in its order."""

class DeviceRow:
    """A device of this machine."""

    @property
    def kind(self) -> str: ...

    @property
    def index(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def memory_bytes(self) -> int: ...

    def __repr__(self) -> str: ...

class ParameterRow:
    """One parameter: its value, and the source that set it."""

    @property
    def name(self) -> str: ...

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""

    @property
    def value(self) -> str: ...

    @property
    def default_value(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def doc(self) -> str: ...

    @property
    def set_by(self) -> str: ...

    def __repr__(self) -> str: ...

def devices() -> list[DeviceRow]:
    """Every device of this machine, GPUs first."""

def small_copies(kind: str) -> tuple[str, str]:
    """
    How small copies from the CPU to kernels work on devices of a kind, and why.
    """

def no_cuda_reason() -> str:
    """Why there are no cuda devices; empty if there are some."""

def no_attach_reason() -> str:
    """
    Why no process of this machine can copy from another's plain memory; empty if it may work.
    """

def paths() -> str:
    """
    The rules by which paths and algorithms are taken, with the parameters of this environment; docs/paths.md has
    the format, which parameter path_file reads.
    """

def parameters() -> list[ParameterRow]:
    """Every parameter with its value in this environment."""

def tsunami_grid(ranks: int, rows: int, columns: int) -> list[int]:
    """Ranks per dimension."""

def tsunami_block(rank: int, ranks: int, rows: int, columns: int) -> tuple:
    """
    First row, last row, first column and last column (one past) that a rank owns.
    """

class Tsunami:
    """
    One rank's part of a wave over a sea. Collective over the world's ranks.
    """

    def __init__(self, world: World, *, depth_m: Annotated[NDArray[numpy.float64], dict(order='C', device='cpu', writable=False)], elevation_m: Annotated[NDArray[numpy.float64], dict(order='C', device='cpu', writable=False)], width_m: Annotated[NDArray[numpy.float64], dict(order='C', device='cpu', writable=False)], face_width_m: Annotated[NDArray[numpy.float64], dict(order='C', device='cpu', writable=False)], height_m: float, time_step_s: float, gravity: float, rows: int, columns: int, gauges: Sequence[int], steps: int, capture: bool) -> None: ...

    def run(self, steps: int) -> None:
        """Advances by so many steps and waits for them."""

    def gather(self, field: str = 'elevation') -> NDArray[numpy.float64] | None:
        """Rank 0: the whole sea's elevation or highest; else None."""

    def gauge(self, index: int) -> NDArray[numpy.float64] | None:
        """Rank 0: a gauge's elevation after every step; else None."""

    def times(self) -> dict:
        """Where this rank's time went since reset_times()."""

    def reset_times(self) -> None: ...

    def explain(self) -> str:
        """The halo plan's table."""

    def exchanges(self) -> list:
        """
        The halo plan's operations: kind, peer, note, bytes, layout, path, why.
        """

    @property
    def grid(self) -> list[int]:
        """Ranks per dimension."""
