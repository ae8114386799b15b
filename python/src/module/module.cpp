// The Python module onstream._core: thin classes over the C++ library. onstream/*.py makes them comfortable.
#include "base/bind.hpp"

NB_MODULE(_core, m) {
  namespace python = onstream::python;
  // A world holds a reduction's function, whose globals may hold the world: Python's collector does not see such a
  // circle, and at the end of a program that has not closed its world it is no mistake that users could mend.
  nanobind::set_leak_warnings(false);
  m.doc() = "The compiled part of onstream. Import onstream instead.";
  python::bind_errors(m);
  python::bind_blocks(m);
  python::bind_layouts(m);
  python::bind_streams(m);
  python::bind_requests(m);
  python::bind_worlds(m);
  python::bind_calls(m);
  python::bind_plans(m);
  python::bind_one_sided(m);
  python::bind_contexts(m);
  python::bind_heaps(m);
  python::bind_collectives(m);
  python::bind_topology(m);
  python::bind_info(m);
  onstream::bind_tsunami(m);
}
