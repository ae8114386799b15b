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

// For sending: one line, and back. Throws invalid_argument for text that encode() did not make.
std::string encode(const Host& host);
Host decode_host(const std::string& text);

}  // namespace onstream
