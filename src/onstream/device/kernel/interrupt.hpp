// How a host thread that waits long is told to give up: by a function that it asks now and then.
//
// A language binding sets it around a blocking call, to look at Ctrl-C. It is asked only after naps and some yields, so
// a wait that ends soon never pays for it. Each thread has its own; the threads of streams have none.
#pragma once

namespace onstream {

// True ends the wait as if the world had been aborted; the caller then aborts the world.
using InterruptHook = bool (*)();

inline constinit thread_local InterruptHook interrupt_hook = nullptr;

}  // namespace onstream
