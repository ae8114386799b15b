"""Step 4, on GPUs with cupy, or with numpy: onstream run -n 4 python gpu.py"""

import importlib

import onstream as ons

CELLS, STEPS = 100, 50

with ons.init() as world:
    arrays = importlib.import_module("numpy" if world.device == "host" else "cupy")
    field = world.zeros(CELLS + 2)  # on the GPU an array of cupy, without one of numpy
    if world.rank == 0:
        field[1] = 1000.0

    halo = world.halo(field, periodic=True)
    for _ in range(STEPS):
        halo.launch()  # a GPU's arrays: on cupy's current stream, behind its kernels
        new = (field[:-2] + 2 * field[1:-1] + field[2:]) / 4
        change = arrays.sum((new - field[1:-1]) ** 2, keepdims=True)
        world.all_reduce(change)
        field[1:-1] = new

    heat = arrays.sum(field[1:-1], keepdims=True)
    world.all_reduce(heat)
    if world.rank == 0:
        print(f"{STEPS} steps: heat {float(heat[0]):.6f}, last change {float(change[0]):.6f}")
