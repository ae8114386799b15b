// A user-defined op: the product of a matrix of each rank. Compiled by nvcc as product.cu, it runs on cuda too.
#include <cstdio>

#include <onstream/onstream.hpp>

struct Matrix {
  unsigned a, b, c, d;
};
struct Multiply {
  ONSTREAM_BOTH Matrix operator()(const Matrix& x, const Matrix& y) const {  // x is of lower ranks
    return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
  }
};

int main() {
  namespace collective = onstream::collective;
  auto world = onstream::World::create();
  auto memory = world->allocate(sizeof(Matrix), onstream::MemoryKind::pinned);
  auto* matrix = reinterpret_cast<Matrix*>(memory->data());
  *matrix = {1, 0, static_cast<unsigned>(world->rank()), 2};
  world->collective().run(
      collective::reduced_with<Multiply>(collective::all_reduce({matrix, matrix, 1})));  // or on a stream
  std::printf("rank %d has %u %u %u %u\n", world->rank(), matrix->a, matrix->b, matrix->c, matrix->d);
  world->finish();
}
