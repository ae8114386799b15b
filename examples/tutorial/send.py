"""Step 1, one message: onstream run -n 4 python send.py"""

import numpy as np

import onstream as ons

with ons.init() as world:
    if world.rank == 0:
        world.send(np.arange(5.0), 1)
    elif world.rank == 1:
        numbers = np.empty(5)
        world.recv(numbers, 0)
        print(f"rank 1 received {numbers.tolist()} from rank 0")
