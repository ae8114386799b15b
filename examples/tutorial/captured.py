"""Step 3, the same step as one graph, replayed: onstream run -n 4 python captured.py"""

import numpy as np

import onstream as ons

CELLS, STEPS = 100, 50

with ons.init() as world:
    field, change = np.zeros(CELLS + 2), np.zeros(1)
    if world.rank == 0:
        field[1] = 1000.0

    def relax() -> None:
        new = (field[:-2] + 2 * field[1:-1] + field[2:]) / 4
        change[0] = ((new - field[1:-1]) ** 2).sum()
        field[1:-1] = new

    halo, stream = world.halo(field, periodic=True), world.stream()
    with world.capture(stream) as step:  # nothing runs yet
        halo.launch()
        world.call(relax)
        world.all_reduce(change)
    for _ in range(STEPS):
        step.launch()  # returns at once
    stream.synchronize()  # waits, and raises if anything went wrong

    heat = world.all_reduce(field[1:-1].sum())
    if world.rank == 0:
        print(f"{STEPS} steps: heat {heat:.6f}, last change {change[0]:.6f}")
