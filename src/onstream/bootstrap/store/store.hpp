// The store: a small key-value server in rank 0's process, where the ranks of a job meet: at a Unix-domain name, or
// over TCP.
//
// Every connection starts with proof of the job's secret; anything malformed is dropped without an answer. The store is
// used at start-up and by collective set-up calls, never by ops. All waits have deadlines.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/launch.hpp"

namespace onstream {

class Store {
 public:
  // Rank 0 starts the server (the port may be 0: then the system chooses, see port()); everyone connects, retrying
  // until the deadline. Throws timeout naming address and port.
  Store(const Launch& launch, Deadline deadline);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  int port() const;
  // This end of the TCP connection to rank 0, as a number; "" if there is none.
  std::string local_number() const;
  // The first value of a key stays, from whichever rank.
  void set(std::string_view key, std::string_view value);
  // Blocks until the key is set. Throws timeout naming the key.
  std::string get(std::string_view key, Deadline deadline);
  // One value from every rank, in rank order; each (topic) is used once. Throws timeout naming the ranks that did not
  // come.
  std::vector<std::string> all_gather(std::string_view topic, std::string_view mine, Deadline deadline);

  // For ranks that see nothing of a rank's failure at the start but its end: the first one told stays.
  void tell_failure(const std::string& what);
  // "rank 2 (pid 71): no GPU is here", once a rank has told; "" if none does within 1.5 s, or one has died. Other calls
  // of this store wait meanwhile.
  std::string failure_told();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace onstream
