// The calls of collective_user_op.cpp's functors, with their kernels for both devices.
#include "collective_user_op_kernels.hpp"

namespace onstream::test {

template <class F, class T>
CollectiveCall with(CollectiveCall call, const F& functor) {
  return collective::reduced_with<F, T>(std::move(call), functor);
}
template <class F, class T>
void load(Collective& collective) {
  collective::load<F, T>(collective);
}

#define ONSTREAM_TEST_FUNCTOR(F, T)                                          \
  template CollectiveCall with<F, T>(CollectiveCall call, const F& functor); \
  template void load<F, T>(Collective & collective);
ONSTREAM_TEST_FUNCTOR(Multiply, Matrix)
ONSTREAM_TEST_FUNCTOR(Compose, Affine)
ONSTREAM_TEST_FUNCTOR(Largest, Found)
ONSTREAM_TEST_FUNCTOR(Join, Span)
ONSTREAM_TEST_FUNCTOR(Maps<1>, Bytes<1>)
ONSTREAM_TEST_FUNCTOR(Maps<3>, Bytes<3>)
ONSTREAM_TEST_FUNCTOR(Maps<12>, Bytes<12>)
ONSTREAM_TEST_FUNCTOR(Maps<40>, Bytes<40>)
ONSTREAM_TEST_FUNCTOR(Maps<255>, Bytes<255>)

}  // namespace onstream::test
