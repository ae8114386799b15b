"""Symmetric memory of the stand-in: any array."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import Tensor


def empty(count: int, *, dtype: Any, device: Any) -> Tensor:
    return np.empty(count, dtype).view(Tensor)


def rendezvous(tensor: Tensor, group: str) -> None:
    assert group == "0"
    assert os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] == "1"
