// This process's place in the job: rank, size and where to meet, as the launcher that started it gives them.
#pragma once

#include <string>
#include <vector>

namespace onstream {

struct Launch {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string address = "127.0.0.1";  // of rank 0's store: a host, or "unix:NAME" for ranks of one host (no port)
  int port = 0;                       // of rank 0's store; 0 with size 1 or "unix:NAME"
  std::string secret;                 // shared by the job's ranks; every connection proves that it knows it
  std::string generation;             // "" for the whole job; differs for each choice of ranks it goes on without
  std::string launcher = "none";      // "onstream", "torchrun", "open mpi", "mpich", "slurm" or "none"

  // The launch of the same job without some of its ranks, which have died: the others make a new world of it. They are
  // numbered anew, in their old order, and meet at a place of their own; each must name the same ranks. Throws
  // invalid_argument for ranks that are not in the job, or this one.
  Launch without(const std::vector<int>& ranks) const;
};

// Reads ONSTREAM_RANK/SIZE/..., torchrun's RANK/WORLD_SIZE/MASTER_ADDR/MASTER_PORT, Open MPI's OMPI_COMM_WORLD_*,
// MPICH's PMI_*, or SLURM_*, in that order. ONSTREAM_ADDRESS, _PORT and _SECRET say otherwise than these launchers do.
// A secret that no one set is made from the job's identity: good enough on one host, where the kernel also tells the
// user at the other end; set ONSTREAM_SECRET where strangers share the network of a job of several hosts.
// Ranks that are started by hand on several hosts set ONSTREAM_LOCAL_RANK and ONSTREAM_LOCAL_SIZE too; ranks of other
// hosts reach rank 0 at its address and port, and each other at a port that the system chooses.
// A process started by none of them is a world of one rank. Throws invalid_argument naming the variable that is
// missing, unreadable or contradicts another (rank >= size).
Launch launch_from_environment();

// Whether this host has more ranks than cores, so that they run by turns.
bool is_crowded(const Launch& launch);

}  // namespace onstream
