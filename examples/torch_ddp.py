"""Trains a model on every rank's own data by DDP over onstream: torchrun --nproc-per-node 2 examples/torch_ddp.py"""

import onstream.torch  # noqa: F401  the import registers the backend
import torch
import torch.distributed as dist

dist.init_process_group("onstream")  # rank, size and store come from torchrun
rank = dist.get_rank()

torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(rank))
wanted = inputs.sum(dim=1, keepdim=True)
for _ in range(100):
    loss = (model(inputs) - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()  # the gradients' mean over all ranks, bucket by bucket
    optimizer.step()

print(
    f"rank {rank} of {dist.get_world_size()} has the weights {[round(w, 2) for w in model.module.weight[0].tolist()]}"
)
dist.destroy_process_group()
