"""Step 2, heat in a rod, a part of it on each rank: onstream run -n 4 python halo.py"""

import numpy as np

import onstream as ons

CELLS, STEPS = 100, 50

with ons.init() as world:
    field = np.zeros(CELLS + 2)
    if world.rank == 0:
        field[1] = 1000.0

    halo = world.halo(field, periodic=True)  # a plan: made once, by all ranks
    for _ in range(STEPS):
        halo.launch()  # fills both ghost cells from the neighbours
        new = (field[:-2] + 2 * field[1:-1] + field[2:]) / 4
        change = world.all_reduce(((new - field[1:-1]) ** 2).sum())
        field[1:-1] = new

    heat = world.all_reduce(field[1:-1].sum())
    if world.rank == 0:
        print(f"{STEPS} steps: heat {heat:.6f}, last change {change:.6f}")
