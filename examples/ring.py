"""Every rank sends to its right and receives from its left: onstream run -n 4 python examples/ring.py"""

import numpy as np

import onstream as ons

w = ons.init()  # rank and size come from the launcher
right, left = (w.rank + 1) % w.size, (w.rank - 1) % w.size

x = np.full(1000, w.rank, dtype=np.float64)  # numpy, torch and cupy arrays alike
y = np.empty_like(x)
w.sendrecv(x, right, y, left, tag=3)  # both at once: no rank waits for the next one's turn
print(f"rank {w.rank} of {w.size} has the {y[0]:g} of rank {left}")
w.close()
