// Which host this process runs on, as far as it matters for reaching another process: the same boot of the same kernel,
// and the same network namespace (abstract socket names live in one).
#pragma once

#include <string>

namespace onstream {

struct Host {
  std::string name;               // for people
  std::string boot_id;            // of the running kernel
  std::string network_namespace;  // "net:[4026531840]"
  std::string pid_namespace;      // a process id means something only within one
};

// Throws system when /proc cannot be read.
Host this_host();

// Processes with these two hosts can connect Unix-domain sockets and pass file descriptors.
bool same_host(const Host& left, const Host& right);

// How messages name a rank: "rank 2 (pid 71)", or "rank 3 (pid 71 on node2)" if it is on another host.
std::string name_of_rank(int rank, int pid, const std::string& other_host);

// For sending: one line, and back. Throws invalid_argument for text that encode() did not make.
std::string encode(const Host& host);
Host decode_host(const std::string& text);

}  // namespace onstream
