import numpy as np

import onstream as ons

with ons.init() as world:
    field = np.full(10, float(world.rank))  # eight cells, and a ghost cell at each end
    world.halo(field, periodic=True).launch()
    total = world.all_reduce(field[1:-1].sum())
    print(f"rank {world.rank} of {world.size}: {field[0]:g} | {field[1]:g} | {field[-1]:g}; total {total:g}")
