// Rank 0 sends a number, rank 1 receives it: onstream run -n 2 build-examples/first
#include <cstdio>

#include <onstream/onstream.hpp>

int main() {
  auto world = onstream::World::create();
  onstream::Stream stream = world->device().create_stream();
  auto memory = world->allocate(sizeof(double), onstream::MemoryKind::pinned);
  auto* number = reinterpret_cast<double*>(memory->data());
  if (world->rank() == 0) *number = 42;
  if (world->rank() == 0) world->send(number, sizeof(double), 1, {}, stream);  // enqueued: returns at once
  if (world->rank() == 1) world->recv(number, sizeof(double), 0, {}, stream);
  world->synchronize(stream);  // waits, and throws if it went wrong
  std::printf("rank %d has %g\n", world->rank(), *number);
  world->device().destroy_stream(stream);
  world->finish();  // throws the error of work that no call has told
}
