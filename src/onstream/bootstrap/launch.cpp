// One function a launcher, tried in order; each fills a Launch and gives the job's identity. settle() does the rest.
//
// Ranks of one host meet at an abstract Unix-domain name made from the job's identity: no port can be taken by another
// program (torchrun's own store holds MASTER_PORT), and the kernel tells that the other end is the same user. Ranks of
// several hosts meet at a TCP port, derived from the same identity unless ONSTREAM_PORT gives it.
#include "onstream/launch.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <set>
#include <thread>

#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/bootstrap/launch_parse.hpp"
#include "onstream/bootstrap/sha256.hpp"

namespace onstream {
namespace {

struct FoundLaunch {
  Launch launch;
  std::string job;      // differs between jobs of this machine
  std::string address;  // of rank 0's host, if the launcher tells
  int first_port = 20000;
  int ports = 10000;   // below the range that the kernel gives to clients
  std::string advice;  // for the user, when the ranks are on several hosts and no address is known
};

std::optional<std::string> text_of(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<int> number_of(const char* name) {
  const std::optional<std::string> text = text_of(name);
  if (!text) return std::nullopt;
  const std::optional<int> value = number_in<int>(*text);
  require(value && *value >= 0, name, "='", *text, "' is not a number from 0 on");
  return value;
}

// The port where the ranks meet. Kubernetes puts `tcp://...` there for a service called onstream, which is no word to
// us.
std::optional<int> meeting_port() {
  const std::optional<std::string> text = text_of("ONSTREAM_PORT");
  return text && text->find("://") != std::string::npos ? std::nullopt : number_of("ONSTREAM_PORT");
}

int needed_number(const char* name, const char* beside) {
  const std::optional<int> value = number_of(name);
  require(value.has_value(), name, " is missing though ", beside, " is set; set both or neither");
  return *value;
}

std::string user() { return concat(" of user ", ::geteuid()); }

std::optional<FoundLaunch> from_onstream() {
  if (!text_of("ONSTREAM_RANK") && !text_of("ONSTREAM_SIZE")) return std::nullopt;
  FoundLaunch found;
  found.launch.launcher = "onstream";
  found.launch.rank = needed_number("ONSTREAM_RANK", "ONSTREAM_SIZE");
  found.launch.size = needed_number("ONSTREAM_SIZE", "ONSTREAM_RANK");
  found.launch.local_rank = number_of("ONSTREAM_LOCAL_RANK").value_or(found.launch.rank);
  found.launch.local_size = number_of("ONSTREAM_LOCAL_SIZE").value_or(found.launch.size);
  const std::string address = text_of("ONSTREAM_ADDRESS").value_or("127.0.0.1");
  if (found.launch.size > 1 && !address.starts_with("unix:")) {
    require(meeting_port().has_value(), "ONSTREAM_PORT is missing: the port where the ranks meet at ", address,
            ", the same for all ranks (`onstream run` sets it all)");
    require(text_of("ONSTREAM_SECRET").has_value(),
            "ONSTREAM_SECRET is missing: the same random text for all ranks (`onstream run` sets it)");
  }
  found.address = address;
  found.job = concat("onstream ", address, user());
  return found;
}

std::optional<FoundLaunch> from_torchrun() {
  if (!text_of("RANK") && !text_of("WORLD_SIZE")) return std::nullopt;
  FoundLaunch found;
  found.launch.launcher = "torchrun";
  found.launch.rank = needed_number("RANK", "WORLD_SIZE");
  found.launch.size = needed_number("WORLD_SIZE", "RANK");
  found.launch.local_rank = number_of("LOCAL_RANK").value_or(found.launch.rank);
  const std::optional<int> local_size = number_of("LOCAL_WORLD_SIZE");
  found.launch.local_size = local_size.value_or(found.launch.size);
  if (found.launch.size == 1) return found;
  const std::optional<std::string> address = text_of("MASTER_ADDR");
  require(address.has_value(), "MASTER_ADDR is missing though RANK and WORLD_SIZE are set; set it to rank 0's host");
  const int master_port = needed_number("MASTER_PORT", "MASTER_ADDR");
  found.job = concat("torchrun ", *address, ' ', master_port, ' ', text_of("TORCHELASTIC_RUN_ID").value_or(""), ' ',
                     text_of("TORCHELASTIC_RESTART_COUNT").value_or(""), user());
  // Without LOCAL_WORLD_SIZE (variables set by hand) nobody says whether the job spans hosts, so TCP must do.
  if (local_size != found.launch.size) found.address = *address;
  found.first_port = master_port + 1 <= 65000 ? master_port + 1 : 20000;
  found.ports = 500;
  return found;
}

std::optional<FoundLaunch> from_open_mpi() {
  if (!text_of("OMPI_COMM_WORLD_RANK")) return std::nullopt;
  FoundLaunch found;
  found.launch.launcher = "open mpi";
  found.launch.rank = needed_number("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  found.launch.size = needed_number("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK");
  found.launch.local_rank = needed_number("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK");
  found.launch.local_size = needed_number("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK");
  std::optional<std::string> job = text_of("PMIX_NAMESPACE");
  if (!job) job = text_of("OMPI_MCA_ess_base_jobid");
  require(job || text_of("ONSTREAM_ADDRESS"),
          "neither PMIX_NAMESPACE nor OMPI_MCA_ess_base_jobid names Open MPI's job; "
          "set ONSTREAM_ADDRESS to rank 0's host for all ranks (mpirun -x ONSTREAM_ADDRESS=...)");
  found.job = concat("open mpi ", job.value_or(""), user());
  found.advice = "mpirun -x ONSTREAM_ADDRESS=<rank 0's host>";
  return found;
}

// Hydra gives its ranks no name of the job, but one proxy process a host is an ancestor of them all.
std::string hydra_proxy() {
  for (int pid = ::getppid(); pid > 1;) {
    const ProcessStat stat = parse_process_stat(contents_of(concat("/proc/", pid, "/stat")));
    if (stat.name.starts_with("hydra_pmi")) return concat(pid, " since ", stat.start_time);
    pid = stat.parent;
  }
  return "";
}

std::optional<FoundLaunch> from_mpich() {
  // srun's PMI sets PMI_RANK too, but not the local ones.
  if (!text_of("PMI_RANK") || (!text_of("MPI_LOCALNRANKS") && text_of("SLURM_STEP_ID"))) return std::nullopt;
  FoundLaunch found;
  found.launch.launcher = "mpich";
  found.launch.rank = needed_number("PMI_RANK", "PMI_SIZE");
  found.launch.size = needed_number("PMI_SIZE", "PMI_RANK");
  found.launch.local_rank = number_of("MPI_LOCALRANKID").value_or(found.launch.rank);
  found.launch.local_size = number_of("MPI_LOCALNRANKS").value_or(found.launch.size);
  const std::string proxy = hydra_proxy();
  require(found.launch.size == 1 || !proxy.empty() || text_of("ONSTREAM_ADDRESS"),
          "PMI_RANK is set but no hydra process is an ancestor of this one, so the job cannot be told from others; set "
          "ONSTREAM_ADDRESS to rank 0's host for all ranks");
  found.job = concat("mpich ", found.launch.local_size == found.launch.size ? proxy : "", user());
  found.advice = "mpiexec -genv ONSTREAM_ADDRESS <rank 0's host>";
  return found;
}

std::optional<FoundLaunch> from_slurm() {
  // In a batch script, outside srun, there is a SLURM_PROCID but no step: that is one process, not a rank.
  if (!text_of("SLURM_PROCID") || !text_of("SLURM_STEP_ID")) return std::nullopt;
  FoundLaunch found;
  found.launch.launcher = "slurm";
  found.launch.rank = needed_number("SLURM_PROCID", "SLURM_STEP_ID");
  std::optional<int> size = number_of("SLURM_STEP_NUM_TASKS");
  found.launch.size = size ? *size : needed_number("SLURM_NTASKS", "SLURM_PROCID");
  found.launch.local_rank = number_of("SLURM_LOCALID").value_or(found.launch.rank);
  std::optional<std::string> tasks = text_of("SLURM_STEP_TASKS_PER_NODE");
  if (!tasks) tasks = text_of("SLURM_TASKS_PER_NODE");
  const int node = number_of("SLURM_NODEID").value_or(0);
  found.launch.local_size = tasks ? slurm_tasks_on_node(*tasks, node) : found.launch.size;
  if (found.launch.local_size != found.launch.size) {
    const std::optional<std::string> nodes = text_of("SLURM_STEP_NODELIST");
    found.address = nodes ? slurm_first_host(*nodes) : text_of("SLURM_LAUNCH_NODE_IPADDR").value_or("");
  }
  found.job = concat("slurm ", text_of("SLURM_JOB_ID").value_or(""), '.', *text_of("SLURM_STEP_ID"), user());
  found.advice = "ONSTREAM_ADDRESS=<rank 0's host> srun";
  return found;
}

int derived_port(const FoundLaunch& found) {
  unsigned value = 0;
  for (const char c : sha256(concat("port ", found.job)).substr(0, 3))
    value = value << 8 | static_cast<unsigned char>(c);
  return found.first_port + static_cast<int>(value % static_cast<unsigned>(found.ports));
}

void check(const Launch& launch) {
  require(launch.size >= 1, launch.launcher, " says that the job has ", launch.size, " ranks");
  require(launch.rank < launch.size, launch.launcher, " says that this is rank ", launch.rank, " of only ", launch.size,
          " ranks; they count from 0");
  require(launch.local_rank < launch.local_size && launch.local_size <= launch.size, launch.launcher,
          " says that this is local rank ", launch.local_rank, " of ", launch.local_size, " on this host, in a job of ",
          launch.size);
}

// Where the ranks meet, and their secret.
Launch settle(FoundLaunch found) {
  Launch& launch = found.launch;
  check(launch);
  if (launch.size == 1) return launch;
  const bool one_host = launch.local_size == launch.size;
  std::string address = text_of("ONSTREAM_ADDRESS").value_or(found.address);
  if (address.empty() && one_host) address = concat("unix:onstream-", to_hex(sha256(found.job)).substr(0, 32));
  require(!address.empty(), launch.launcher,
          " started ranks on several hosts and does not tell rank 0's; say it: ", found.advice, " ...");
  launch.address = address;
  if (!address.starts_with("unix:")) {
    launch.port = meeting_port().value_or(derived_port(found));
    require(launch.port > 0 && launch.port < 65536, "port ", launch.port,
            ", where the ranks meet, is not from 1 to 65535");
  }
  launch.secret = text_of("ONSTREAM_SECRET").value_or(to_hex(sha256(concat("secret ", found.job))));
  return launch;
}

}  // namespace

Launch Launch::without(const std::vector<int>& ranks) const {
  const std::set<int> absent(ranks.begin(), ranks.end());
  std::string names;
  for (const int one : absent) {
    require(one >= 0 && one < size, "rank ", one, " is not one of this job's 0 to ", size - 1);
    require(one != rank, "rank ", one, " is this process itself: it cannot go on without it");
    names += concat(' ', one);
  }
  Launch rest = *this;
  rest.rank -= static_cast<int>(std::distance(absent.begin(), absent.lower_bound(rank)));
  rest.size -= static_cast<int>(absent.size());
  // local_rank stays: it says which GPU is this process's. Of ranks on several hosts nobody here knows which were
  // local; they must not look like those of one host, whose store listens there alone.
  const bool one_host = local_size == size;
  rest.local_size = one_host ? rest.size : std::clamp(local_size, 1, std::max(1, rest.size - 1));
  if (absent.empty()) return rest;
  // A TCP port is all that the job has: there the store tells its worlds apart by the generation.
  rest.generation = to_hex(sha256(concat(generation, " without", names))).substr(0, 32);
  if (address.starts_with("unix:")) {
    rest.address = concat("unix:onstream-", to_hex(sha256(concat(address, " without", names))).substr(0, 32));
  }
  return rest;
}

Launch launch_from_environment() {
  for (const auto read : {from_onstream, from_torchrun, from_open_mpi, from_mpich, from_slurm})
    if (std::optional<FoundLaunch> found = read()) return settle(std::move(*found));
  return Launch{};
}

bool is_crowded(const Launch& launch) {
  return launch.local_size > static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace onstream
