// Every rank passes numbers round the ring, in a captured graph: onstream run -n 4 build-examples/ring
#include <cstdio>

#include <onstream/onstream.hpp>

int main() {
  auto world = onstream::World::create();
  onstream::Device& device = world->device();
  onstream::Stream stream = device.create_stream();
  const int right = (world->rank() + 1) % world->size();
  const int left = (world->rank() + world->size() - 1) % world->size();

  // Two numbers: one to send to the right, one from the left. Pinned, so that the CPU may read them on a GPU too.
  auto memory = world->allocate(2 * sizeof(int), onstream::MemoryKind::pinned);
  int* numbers = reinterpret_cast<int*>(memory->data());
  numbers[0] = world->rank();
  const onstream::MessageOptions tag{.tag = 3};

  device.begin_capture(stream);  // nothing runs yet: it becomes a graph
  auto arriving = world->irecv(&numbers[1], sizeof(int), left, tag, stream);
  world->send(&numbers[0], sizeof(int), right, tag, stream);
  world->wait(arriving, stream);
  device.copy(&numbers[0], &numbers[1], sizeof(int), stream);
  auto graph = device.end_capture(stream);
  for (int step = 0; step < 101; ++step) device.launch(graph, stream);
  world->synchronize(stream);  // throws with the story if anything went wrong
  std::printf("rank %d of %d: after 101 steps here is the number of rank %d\n", world->rank(), world->size(),
              numbers[0]);
  device.destroy_stream(stream);
  world->finish();  // throws the error of work that no call has told
}
