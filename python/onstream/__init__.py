"""onstream: communication as one more operation on a GPU stream.

    import onstream as ons

    with ons.init() as world:
        halo = world.halo(field, ghost=1)
        ...

A World is the ranks of a job and all they share; world.py is where to read on.
"""

from __future__ import annotations

from . import _ucx as _ucx  # names the library before a world is made
from ._core import (
    Block,
    DeviceRow,
    Failure,
    Fault,
    Graph,
    Launch,
    Layout,
    OpTime,
    ParameterRow,
    PlanOp,
    Request,
    Stream,
    choose_grid,
    coordinates_of,
    devices,
    launch_from_environment,
    no_attach_reason,
    no_cuda_reason,
    parameters,
    paths,
    rank_at,
)
from ._null import null
from ._views import DeviceArray
from .cartesian import Cartesian
from .contexts import Context
from .errors import (
    AbortedError,
    ClosedError,
    Error,
    InvalidArgumentError,
    MisusedError,
    SystemError,
    TimeoutError,
    TruncatedError,
    UnmappedError,
    UnsupportedError,
)
from .files import load_npy, save_npy
from .handles import Handle
from .heap import Heap
from .neighbours import Neighbourhood
from .plans import Plan, PlanBuilder
from .probes import Message, any_source
from .segments import Segment
from .symmetric import SymmetricArray
from .teams import Team
from .threads import run_threads
from .topology import find_rings
from .world import World, init

__version__ = "0.1.0"

__all__ = [
    "AbortedError",
    "Block",
    "Cartesian",
    "ClosedError",
    "Context",
    "DeviceArray",
    "DeviceRow",
    "Error",
    "Failure",
    "Fault",
    "Graph",
    "Handle",
    "Heap",
    "InvalidArgumentError",
    "Launch",
    "Layout",
    "Message",
    "MisusedError",
    "Neighbourhood",
    "OpTime",
    "ParameterRow",
    "Plan",
    "PlanBuilder",
    "PlanOp",
    "Request",
    "Segment",
    "Stream",
    "SymmetricArray",
    "SystemError",
    "Team",
    "TimeoutError",
    "TruncatedError",
    "UnmappedError",
    "UnsupportedError",
    "World",
    "__version__",
    "any_source",
    "choose_grid",
    "coordinates_of",
    "devices",
    "find_rings",
    "init",
    "launch_from_environment",
    "load_npy",
    "no_attach_reason",
    "no_cuda_reason",
    "null",
    "parameters",
    "paths",
    "rank_at",
    "run_threads",
    "save_npy",
]
