"""A halo exchange and messages on a stream, captured once and replayed: onstream run -n 4 python examples/halo.py"""

import numpy as np

import onstream as ons

w = ons.init()
right, left = (w.rank + 1) % w.size, (w.rank - 1) % w.size
field = w.zeros((66, 130), dtype=np.float32, kind="pinned")  # one ghost cell all round; a solver leaves kind out
field[1:-1, 1:-1] = w.rank
row = w.zeros(128, dtype=np.float32, kind="pinned")
halo = w.halo(field, ghost=1, periodic=True)  # a plan: compiled once

stream = w.stream()  # torch and cupy streams order messages and plans as well
with w.capture(stream) as step:  # nothing of this runs yet: it becomes a graph
    halo.launch(stream)  # one kernel fills every ghost cell
    arriving = w.irecv(row, left, stream=stream)
    w.send(field[1, 1:-1], right, stream=stream)
    arriving.wait(stream)
for _ in range(100):
    step.launch(stream)  # enqueued: the host does not wait
stream.synchronize()  # raises if anything went wrong

print(f"rank {w.rank}: above lies rank {field[0, 1]:g}, and a row came from rank {row[0]:g}")
if w.rank == 0:
    print(halo.explain())
w.close()
