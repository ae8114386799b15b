"""torch.distributed over onstream.

    import onstream.torch
    torch.distributed.init_process_group("onstream")

The import registers the backend "onstream" for cpu and cuda tensors; "cpu:gloo,cuda:onstream" leaves those of the CPU to
gloo. docs/torch.md lists the calls that it serves. group.py is where to read on: a ProcessGroup whose methods make calls
(calls.py) and hand them to a lane, lanes.py, which runs them in a World of the group's own ranks (meeting.py).
"""

from __future__ import annotations

try:
    import torch.distributed as _dist
except ImportError as _missing:
    raise ImportError(
        "onstream.torch needs PyTorch 2.11 or newer, which is not installed: pip install torch"
    ) from _missing

if not _dist.is_available():
    raise ImportError("onstream.torch needs a PyTorch with torch.distributed, which this build of it lacks")

from . import collectives as _collectives
from . import work as _work
from .group import Group, create
from .unseen import hide as _hide

__all__ = ["Group"]

_hide(Group, _collectives.Collectives, _work.HostWork, _work.CudaWork, _work.CudaBarrierWork, _work.MessageWork)
if "onstream" not in _dist.Backend.backend_list:
    _dist.Backend.register_backend("onstream", create, extended_api=True, devices=["cpu", "cuda"])
