"""The collectives of a process group: c10d's methods, each of which makes onstream's calls and runs them in a lane.

Names and arguments are c10d's own, of torch 2.11 and of 2.15. With `opts.asyncOp` a method returns a Work at once; without
it the method blocks for CPU tensors, enqueues for CUDA tensors, and returns None. Tensors must not change before the work
has ended. Errors are onstream's: InvalidArgumentError and UnsupportedError before anything is sent, and AbortedError or
TimeoutError with the world's story once a rank has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)

from ..errors import InvalidArgumentError
from . import calls
from .calls import Pair
from .lanes import Calls, CudaLane, HostLane
from .work import Work

Tensors = list[Any]
_ALL_REDUCE, _REDUCE, _BROADCAST = AllreduceOptions(), ReduceOptions(), BroadcastOptions()
_ALL_GATHER, _GATHER, _SCATTER = AllgatherOptions(), GatherOptions(), ScatterOptions()
_REDUCE_SCATTER, _ALL_TO_ALL, _BARRIER = ReduceScatterOptions(), AllToAllOptions(), BarrierOptions()


class Collectives:
    """The methods; a Group says its rank and size, and which lane serves a device."""

    _rank: int
    _size: int

    def _lane(self, call: str, device: Any) -> HostLane | CudaLane:
        raise NotImplementedError

    # --- reductions ---

    def allreduce(self, tensors: Tensors, opts: Any = _ALL_REDUCE) -> Work | None:
        """Reduces in place, for every rank."""
        tensor = calls.one_of("all_reduce", tensors)
        back: list[Pair] = []
        array = calls.in_place("all_reduce", tensor, back)
        call = calls.reduction("all_reduce", array, array, array.numel(), opts.reduceOp)
        return self._lane("all_reduce", tensor.device).run(((call, array),), back, tensors, opts.asyncOp)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = _ALL_REDUCE) -> Work | None:
        """allreduce() of each tensor, all in one work."""
        device = calls.device_of("all_reduce", tensors)
        back: list[Pair] = []
        arrays = [calls.in_place("all_reduce", tensor, back) for tensor in tensors]
        made = [(calls.reduction("all_reduce", array, array, array.numel(), opts.reduceOp), array) for array in arrays]
        return self._run("all_reduce", device, made, back, tensors, opts)

    def allreduce_sparse(self, tensors: Tensors, opts: Any = _ALL_REDUCE) -> Work | None:
        """Refuses: onstream has no sparse reductions."""
        calls.check("all_reduce", calls.one_of("all_reduce", tensors))
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Tensors, opts: Any = _REDUCE) -> Work | None:
        """Reduces to the root's tensor; the others stay as they are."""
        tensor = calls.one_of("reduce", tensors)
        root = self._root("reduce", opts)
        back: list[Pair] = []
        if self._rank == root:
            array = target = calls.in_place("reduce", tensor, back)
        else:
            array, target = calls.source_of("reduce", tensor), None
        call = calls.reduction("reduce", array, target, array.numel(), opts.reduceOp, root)
        return self._lane("reduce", tensor.device).run(((call, array),), back, tensors, opts.asyncOp)

    def reduce_scatter(self, outputs: Tensors, inputs: list[Tensors], opts: Any = _REDUCE_SCATTER) -> Work | None:
        """Reduces a list of tensors, one a rank, of which each rank keeps its own. They may differ in size."""
        output, parts = calls.one_of("reduce_scatter", outputs), calls.one_of("reduce_scatter", inputs)
        self._check_parts("reduce_scatter", parts, "input")
        calls.check_alike("reduce_scatter", [output, *parts])
        calls.check_numel("reduce_scatter", output, parts[self._rank].numel(), "output")
        back: list[Pair] = []
        target = calls.target_of("reduce_scatter", output, back)
        made: list[Any] = []
        if len({part.numel() for part in parts}) == 1:
            source = calls.flat_source("reduce_scatter", parts)
            made = [self._reduce_scatter_call(target, source, opts)]
        else:
            for root, part in enumerate(parts):
                source = calls.source_of("reduce_scatter", part)
                to = target if root == self._rank else None
                made.append((calls.reduction("reduce", source, to, source.numel(), opts.reduceOp, root), (source, to)))
        return self._run("reduce_scatter", outputs[0].device, made, back, outputs, opts)

    def reduce_scatter_single(self, output: Any, source: Any, opts: Any = _REDUCE_SCATTER) -> Work | None:
        """Reduces one tensor, of which each rank keeps its part."""
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = _REDUCE_SCATTER
    ) -> Work | None:
        """reduce_scatter_single() of each pair, all in one work."""
        device = calls.device_of("reduce_scatter", outputs)
        back: list[Pair] = []
        made = []
        for output, source in zip(outputs, inputs, strict=True):
            calls.check_alike("reduce_scatter", [output, source])
            calls.check_numel("reduce_scatter", source, output.numel() * self._size, "input")
            target = calls.target_of("reduce_scatter", output, back)
            made.append(self._reduce_scatter_call(target, calls.source_of("reduce_scatter", source), opts))
        return self._run("reduce_scatter", device, made, back, outputs, opts)

    # --- moves ---

    def broadcast(self, tensors: Tensors, opts: Any = _BROADCAST) -> Work | None:
        """The root's tensor for all, in place."""
        tensor = calls.one_of("broadcast", tensors)
        root = self._root("broadcast", opts)
        back: list[Pair] = []
        array = calls.in_place("broadcast", tensor, back)
        call = calls.move("broadcast", array, array, array.numel() * array.element_size(), root)
        return self._lane("broadcast", tensor.device).run(((call, array),), back, tensors, opts.asyncOp)

    def allgather(self, outputs: list[Tensors], inputs: Tensors, opts: Any = _ALL_GATHER) -> Work | None:
        """The tensors of all ranks, for every rank. They may differ in size."""
        parts, tensor = calls.one_of("all_gather", outputs), calls.one_of("all_gather", inputs)
        back: list[Pair] = []
        made = [self._all_gather_call(parts, tensor, back)]
        return self._run("all_gather", tensor.device, made, back, outputs, opts)

    def allgather_coalesced(self, outputs: list[Tensors], inputs: Tensors, opts: Any = _ALL_GATHER) -> Work | None:
        """allgather() of each tensor; outputs[r][i] is tensor i of rank r."""
        device = calls.device_of("all_gather", inputs)
        back: list[Pair] = []
        made = [
            self._all_gather_call([each[number] for each in outputs], tensor, back)
            for number, tensor in enumerate(inputs)
        ]
        return self._run("all_gather", device, made, back, outputs, opts)

    def all_gather_single(self, output: Any, source: Any, opts: Any = _ALL_GATHER) -> Work | None:
        """The tensors of all ranks, one behind the other in one tensor."""
        return self.all_gather_single_coalesced([output], [source], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = _ALL_GATHER) -> Work | None:
        """all_gather_single() of each pair, all in one work."""
        device = calls.device_of("all_gather", inputs)
        back: list[Pair] = []
        made = []
        for output, each in zip(outputs, inputs, strict=True):
            calls.check_alike("all_gather", [output, each])
            calls.check_numel("all_gather", output, each.numel() * self._size, "output")
            source, target = calls.source_of("all_gather", each), calls.target_of("all_gather", output, back)
            nbytes = source.numel() * source.element_size()
            made.append((calls.move("all_gather", source, target, nbytes), (source, target)))
        return self._run("all_gather", device, made, back, outputs, opts)

    def gather(self, outputs: list[Tensors], inputs: Tensors, opts: Any = _GATHER) -> Work | None:
        """The tensors of all ranks, for the root."""
        tensor, root = calls.one_of("gather", inputs), self._root("gather", opts)
        back: list[Pair] = []
        target = None
        if self._rank == root:
            parts = calls.one_of("gather", outputs)
            self._check_parts("gather", parts, "output", tensor.numel())
            calls.check_alike("gather", [tensor, *parts])
            target = calls.flat_target("gather", parts, back)
        return self._gather(tensor, target, back, outputs, opts)

    def gather_single(self, output: Any, source: Any, opts: Any = _GATHER) -> Work | None:
        """gather() into one tensor."""
        back: list[Pair] = []
        target = None
        if self._rank == self._root("gather", opts):
            calls.check_alike("gather", [source, output])
            calls.check_numel("gather", output, source.numel() * self._size, "output")
            target = calls.target_of("gather", output, back)
        return self._gather(source, target, back, [output], opts)

    def scatter(self, outputs: Tensors, inputs: list[Tensors], opts: Any = _SCATTER) -> Work | None:
        """One of the root's tensors for every rank."""
        tensor, root = calls.one_of("scatter", outputs), self._root("scatter", opts)
        back: list[Pair] = []
        target, source = calls.target_of("scatter", tensor, back), None
        if self._rank == root:
            parts = calls.one_of("scatter", inputs)
            self._check_parts("scatter", parts, "input", tensor.numel())
            calls.check_alike("scatter", [tensor, *parts])
            source = calls.flat_source("scatter", parts)
        call = calls.move("scatter", source, target, target.numel() * target.element_size(), root)
        return self._run("scatter", tensor.device, [(call, (source, target))], back, outputs, opts)

    def all_to_all_single(
        self, output: Any, source: Any, output_splits: Sequence[int], input_splits: Sequence[int],
        opts: Any = _ALL_TO_ALL,
    ) -> Work | None:  # fmt: skip
        """Parts of one tensor to all ranks, and parts from all into one; splits count rows, none means equal parts."""
        calls.check_alike("all_to_all", [output, source])
        back: list[Pair] = []
        array, target = calls.source_of("all_to_all", source), calls.target_of("all_to_all", output, back)
        if output_splits or input_splits:
            send = calls.splits_of("all_to_all", source, input_splits, self._size, "input")
            receive = calls.splits_of("all_to_all", output, output_splits, self._size, "output")
            self._check_own("all_to_all", send, receive)
            call = calls.all_to_all_v(array, target, send, receive)
        else:
            part = calls.splits_of("all_to_all", source, [], self._size, "input")[0]
            calls.check_numel("all_to_all", output, source.numel(), "output")
            call = calls.move("all_to_all", array, target, part * array.element_size())
        return self._run("all_to_all", output.device, [(call, (array, target))], back, [output], opts)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = _ALL_TO_ALL) -> Work | None:
        """A tensor to each rank, and one from each. They may differ in size."""
        self._check_parts("all_to_all", outputs, "output")
        self._check_parts("all_to_all", inputs, "input")
        calls.check_alike("all_to_all", [*outputs, *inputs])
        back: list[Pair] = []
        source = calls.flat_source("all_to_all", inputs)
        target = calls.flat_target("all_to_all", outputs, back)
        send, receive = [each.numel() for each in inputs], [each.numel() for each in outputs]
        self._check_own("all_to_all", send, receive)
        call = calls.all_to_all_v(source, target, send, receive)
        return self._run("all_to_all", source.device, [(call, (source, target))], back, outputs, opts)

    def barrier(self, opts: Any = _BARRIER) -> Work | None:
        """Blocks until all ranks have come, those of CUDA tensors with their stream's work."""
        device = opts.device or torch.device("cpu")
        lane = self._lane("barrier", device)
        limited = opts.timeout.total_seconds() > 0
        work = lane.run_barrier(((calls.barrier(), ()),), opts.asyncOp or limited)
        if limited and not opts.asyncOp and work is not None:
            work.wait(opts.timeout)
            return None
        return work

    # torch 2.11 calls them by these names.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # --- detail ---

    def _run(self, call: str, device: Any, made: Calls, back: list[Pair], tensors: Any, opts: Any) -> Work | None:
        return self._lane(call, device).run(made, back, tensors, opts.asyncOp)

    def _gather(self, tensor: Any, target: Any, back: list[Pair], outputs: Any, opts: Any) -> Work | None:
        source = calls.source_of("gather", tensor)
        call = calls.move("gather", source, target, source.numel() * source.element_size(), opts.rootRank)
        return self._run("gather", tensor.device, [(call, (source, target))], back, outputs, opts)

    def _all_gather_call(self, parts: Tensors, tensor: Any, back: list[Pair]) -> tuple[Any, Any]:
        self._check_parts("all_gather", parts, "output")
        calls.check_alike("all_gather", [tensor, *parts])
        calls.check_numel("all_gather", tensor, parts[self._rank].numel(), "input")
        source, target = calls.source_of("all_gather", tensor), calls.flat_target("all_gather", parts, back)
        counts = [part.numel() for part in parts]
        if len(set(counts)) > 1:
            return calls.gather_v(source, target, counts), (source, target)
        call = calls.move("all_gather", source, target, source.numel() * source.element_size())
        return call, (source, target)

    def _reduce_scatter_call(self, target: Any, source: Any, opts: Any) -> tuple[Any, Any]:
        call = calls.reduction("reduce_scatter", source, target, target.numel(), opts.reduceOp)
        return call, (source, target)

    def _root(self, call: str, opts: Any) -> int:
        root: int = opts.rootRank
        if not 0 <= root < self._size:
            raise InvalidArgumentError(f"{call}: the root is {root}, but the group's ranks are 0 to {self._size - 1}")
        return root

    def _check_parts(self, call: str, parts: Tensors, name: str, numel: int | None = None) -> None:
        if len(parts) != self._size:
            raise InvalidArgumentError(f"{call}: the {name} list has {len(parts)} tensors for {self._size} ranks")
        for part in parts if numel is not None else ():
            calls.check_numel(call, part, numel or 0, name)

    def _check_own(self, call: str, send: Sequence[int], receive: Sequence[int]) -> None:
        if send[self._rank] != receive[self._rank]:
            raise InvalidArgumentError(
                f"{call}: this rank sends itself {send[self._rank]} elements and expects {receive[self._rank]}"
            )
