"""Trains a model on every rank's own data: onstream run -n 2 python torch_ddp.py, or torchrun --nproc-per-node 2 torch_ddp.py"""

import onstream.torch  # noqa: F401  the import registers the backend
import torch
import torch.distributed as dist

dist.init_process_group("onstream")  # rank, size and store come from the launcher
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(dist.get_rank()))
for _ in range(100):
    optimizer.zero_grad()
    loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
    loss.backward()  # the gradients' mean over all ranks, bucket by bucket
    optimizer.step()
print(f"rank {dist.get_rank()} has the weights {[round(w, 2) for w in model.module.weight[0].tolist()]}")
dist.destroy_process_group()
