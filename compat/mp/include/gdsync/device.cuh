// libgdsync's device header: its words and functions are in libmp's.
#pragma once
#include "mp/device.cuh"
