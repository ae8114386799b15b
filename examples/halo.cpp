// Ghost cells of a block-decomposed array, filled from the neighbours: onstream run -n 4 build-examples/halo
//
// The array lies in a grid of ranks, periodic both ways; each rank's block has one ghost cell on every side.
#include <cstdio>
#include <vector>

#include <onstream/onstream.hpp>

int main() {
  constexpr int kRows = 66, kColumns = 130;
  auto world = onstream::World::create();
  onstream::Device& device = world->device();
  onstream::Stream stream = device.create_stream();

  // Pinned, so that the CPU may fill and read it on a GPU too; a solver would take device memory.
  auto memory = world->allocate(kRows * kColumns * sizeof(float), onstream::MemoryKind::pinned);
  float* field = reinterpret_cast<float*>(memory->data());
  onstream::HaloSpec spec;
  spec.shape = {kRows, kColumns};
  spec.element_bytes = sizeof(float);
  spec.ghost = {1, 1};
  spec.periodic = {true, true};
  spec.grid = onstream::choose_grid(world->size(), spec.shape);
  auto halo = world->halo(field, spec);

  device.begin_capture(stream);
  halo->launch(stream);  // one kernel stores every boundary straight into the neighbours' ghost cells
  auto step = device.end_capture(stream);
  bool right = true;
  for (int time = 0; time < 10; ++time) {
    for (int cell = 0; cell < kRows * kColumns; ++cell) field[cell] = static_cast<float>(100 * time + world->rank());
    world->barrier();  // all blocks are written
    device.launch(step, stream);
    world->synchronize(stream);
    std::vector<int> above = onstream::coordinates_of(world->rank(), spec.grid);
    --above[0];
    const int neighbour = onstream::rank_at(above, spec.grid, spec.periodic);
    right = right && field[1] == static_cast<float>(100 * time + neighbour);
    world->barrier();  // all have looked
  }
  if (world->rank() == 0) std::printf("%s\n", halo->explain().c_str());
  std::printf("rank %d: its ghost cells are %s\n", world->rank(), right ? "right" : "wrong");
  device.destroy_stream(stream);
  world->finish();
  return right ? 0 : 1;
}
