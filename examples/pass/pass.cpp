#include "pass.hpp"

#include <cstdio>

#include <onstream/onstream.hpp>

int main() {
  auto world = onstream::World::create();
  onstream::Device& device = world->device();
  auto segment = world->segment(sizeof(Part));  // zeroed
  auto sum = world->allocate(sizeof(double), onstream::MemoryKind::pinned);
  onstream::Stream stream = device.create_stream();

  // The last is null, and nobody needs pass.cu, where the library was built without CUDA.
  const onstream::Kernel kernel{"pass", onstream::host_entry<Pass>, ONSTREAM_CUDA_ADDRESS(pass_on_cuda())};
  const Pass body{world->one_sided().view(*segment), reinterpret_cast<Part*>(segment->local()),
                  reinterpret_cast<double*>(sum->data())};
  device.load(kernel);  // on every rank, before it waits on any
  world->barrier();
  onstream::launch(device, kernel, body, onstream::Grid{1, 64}, stream);
  world->synchronize(stream);  // throws if a wait of the kernel failed
  std::printf("rank %d has the sum %g\n", world->rank(), *body.sum);
  world->barrier();  // nobody's part goes while another may still put there
  device.destroy_stream(stream);
  world->finish();
}
