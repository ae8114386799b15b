"""Heat in a rod with two arrays that are swapped each step: onstream run -n 4 python examples/swap.py"""

import numpy as np

import onstream as ons

CELLS, STEPS = 100, 50

with ons.init() as world:
    now, new = np.zeros(CELLS + 2), np.zeros(CELLS + 2)
    if world.rank == 0:
        now[1] = 1000.0

    halo_now, halo_new = world.halo(now, periodic=True), world.halo(new, periodic=True)
    for _ in range(STEPS):
        halo_now.launch()
        new[1:-1] = (now[:-2] + 2 * now[1:-1] + now[2:]) / 4
        now, new = new, now
        halo_now, halo_new = halo_new, halo_now  # a plan keeps its array, so the plans are swapped too

    heat = world.all_reduce(now[1:-1].sum())
    if world.rank == 0:
        print(f"{STEPS} steps: heat {heat:.6f}, first cell {now[1]:.6f}")
