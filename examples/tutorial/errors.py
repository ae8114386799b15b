"""Step 5, a rank dies: onstream run --grace-s inf -n 4 python errors.py"""

import os

import numpy as np

import onstream as ons

world = ons.init()
field = np.full(8, float(world.rank))
saved = field.copy()  # a checkpoint
try:
    for step in range(10):
        if step == 5 and world.rank == world.size - 1:
            os._exit(3)  # as if it was killed
        field += world.all_reduce(field.sum()) / field.size
        if step == 3:
            saved[:] = field
except ons.Error:
    failure = world.failure()
    world.close()
    world = ons.init(launch=world.launch.without(failure.dead))
    field[:] = saved  # all that live have this one
    print(f"{failure.dead} died; now rank {world.rank} of {world.size} goes on")

world.all_reduce(field)
world.close()
