"""Keeps torch.compile from tracing this package's frames, which C++ calls in the middle of compiled code.

A Group's methods pass addresses of tensors to onstream; there is nothing in them to compile. torch marks code in this way
for its own decorators; torch._dynamo.disable would do as well, but costs each call a microsecond and an import of seconds.
"""

from __future__ import annotations

from types import FunctionType

from torch._C._dynamo import eval_frame


def hide(*owners: type) -> None:
    """Lets the methods of these classes, and all that they call, run as they are."""
    skip = eval_frame._FrameAction.SKIP
    plan = eval_frame._FrameExecStrategy(skip, skip)  # of the frame, and of frames below it
    for owner in owners:
        for method in vars(owner).values():
            if isinstance(method, FunctionType):
                eval_frame.set_code_exec_strategy(method.__code__, plan)
