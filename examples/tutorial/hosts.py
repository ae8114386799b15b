"""Step 6, several hosts: onstream run --hosts a:2,b:2 python hosts.py"""

import socket

import numpy as np

import onstream as ons

with ons.init(device="host") as world:  # between hosts the host device communicates
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    mine, theirs = np.full(1000, world.rank), np.empty(1000, int)
    world.sendrecv(mine, right, theirs, left)
    assert (theirs == left).all()

    names = world.gather_objects(socket.gethostname())
    way = world.explain.send(mine, right).splitlines()[0]
    if world.rank == 0:
        print(f"{world.size} ranks on {len(set(names))} hosts")
        print(way)
