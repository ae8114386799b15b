// The GPU entries of the conformance kernels, for this program too.
#include "device_conformance_kernels.cu"
