// A process's rank and job under each launcher: the variables that it sets, and the errors for missing or wrong ones.
//
// One launcher's variables are set at a time, all others removed; the values are those of the real ones (torchrun 2.x,
// Open MPI 5, MPICH 5, Slurm 23).
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

#include "onstream/base/text.hpp"
#include "onstream/bootstrap/launch_parse.hpp"
#include "onstream/launch.hpp"
#include "support/check.hpp"

extern char** environ;

namespace {

using namespace onstream;
using Variables = std::map<std::string, std::string>;

// The environment holds nothing but these until the next call.
Launch launch_under(const Variables& variables) {
  ::clearenv();
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  return launch_from_environment();
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables kRun = {{"ONSTREAM_RANK", "1"},       {"ONSTREAM_SIZE", "4"},           {"ONSTREAM_LOCAL_RANK", "1"},
                        {"ONSTREAM_LOCAL_SIZE", "4"}, {"ONSTREAM_ADDRESS", "unix:job"}, {"ONSTREAM_SECRET", "s"}};
const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "3"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "127.0.0.1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_RESTART_COUNT", "0"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "prterun-host-23823@1"}};
const Variables kSlurm = {
    {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"},  {"SLURM_LOCALID", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "3"},
    {"SLURM_NODEID", "0"}, {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "node01"}};

CASE(a_process_started_by_nobody_is_a_world_of_one) {
  const Launch launch = launch_under({});
  CHECK(launch.rank == 0 && launch.size == 1 && launch.launcher == "none");
}

CASE(onstream_run_says_it_all) {
  const Launch launch = launch_under(kRun);
  CHECK(launch.launcher == "onstream");
  CHECK(launch.rank == 1 && launch.size == 4 && launch.local_rank == 1 && launch.local_size == 4);
  CHECK(launch.address == "unix:job" && launch.port == 0 && launch.secret == "s");
}

CASE(onstream_variables_win_over_other_launchers) {
  Variables both = kTorchrun;
  both.insert(kRun.begin(), kRun.end());
  CHECK(launch_under(both).launcher == "onstream");
}

CASE(a_port_that_kubernetes_sets_for_a_service_is_none_of_ours) {
  const std::string service = "tcp://10.0.0.1:8080";
  const Variables two_hosts = with(with(kTorchrun, "LOCAL_WORLD_SIZE", "2"), "LOCAL_RANK", "1");
  CHECK(launch_under(with(two_hosts, "ONSTREAM_PORT", service)).port == launch_under(two_hosts).port);
  CHECK(launch_under({{"ONSTREAM_PORT", service}}).size == 1);
  const Variables hand = {
      {"ONSTREAM_RANK", "1"}, {"ONSTREAM_SIZE", "2"}, {"ONSTREAM_PORT", service}, {"ONSTREAM_SECRET", "s"}};
  CHECK_THROWS((void)launch_under(hand), "ONSTREAM_PORT is missing");
}

CASE(a_job_started_by_hand_needs_port_and_secret) {
  const Variables hand = {
      {"ONSTREAM_RANK", "1"}, {"ONSTREAM_SIZE", "2"}, {"ONSTREAM_PORT", "4711"}, {"ONSTREAM_SECRET", "s"}};
  const Launch launch = launch_under(hand);
  CHECK(launch.address == "127.0.0.1" && launch.port == 4711 && launch.local_size == 2 && launch.local_rank == 1);
  CHECK_THROWS(launch_under(without(hand, "ONSTREAM_PORT")), "ONSTREAM_PORT is missing");
  CHECK_THROWS(launch_under(without(hand, "ONSTREAM_SECRET")), "ONSTREAM_SECRET is missing");
  CHECK_THROWS(launch_under(without(hand, "ONSTREAM_RANK")), "ONSTREAM_RANK is missing though ONSTREAM_SIZE is set");
  CHECK_THROWS(launch_under(with(hand, "ONSTREAM_PORT", "70000")), "port 70000");
}

CASE(values_that_are_no_numbers_are_named) {
  for (const char* bad : {"two", "-1", "1x", " 1", "99999999999", "1.0"}) {
    CHECK_THROWS(launch_under(with(kRun, "ONSTREAM_RANK", bad)), concat("ONSTREAM_RANK='", bad, "'"));
    CHECK_THROWS(launch_under(with(kTorchrun, "WORLD_SIZE", bad)), concat("WORLD_SIZE='", bad, "'"));
  }
}

CASE(contradictions_are_named_with_their_values) {
  CHECK_THROWS(launch_under(with(kRun, "ONSTREAM_RANK", "4")), "rank 4 of only 4");
  CHECK_THROWS(launch_under(with(kRun, "ONSTREAM_SIZE", "0")), "0 ranks");
  CHECK_THROWS(launch_under(with(kRun, "ONSTREAM_LOCAL_SIZE", "5")), "local rank 1 of 5");
  CHECK_THROWS(launch_under(with(kRun, "ONSTREAM_LOCAL_RANK", "4")), "local rank 4 of 4");
}

CASE(torchrun_on_one_host_meets_without_a_port) {
  const Launch launch = launch_under(kTorchrun);
  CHECK(launch.launcher == "torchrun" && launch.rank == 3 && launch.size == 4 && launch.local_size == 4);
  CHECK(launch.address.starts_with("unix:onstream-") && launch.port == 0);
  const Launch peer = launch_under(with(with(kTorchrun, "RANK", "0"), "LOCAL_RANK", "0"));
  CHECK(peer.address == launch.address && peer.secret == launch.secret);
  const Launch restarted = launch_under(with(kTorchrun, "TORCHELASTIC_RESTART_COUNT", "1"));
  CHECK(restarted.address != launch.address);
  const Launch other = launch_under(with(kTorchrun, "MASTER_PORT", "29501"));
  CHECK(other.address != launch.address && other.secret != launch.secret);
}

CASE(torchrun_on_several_hosts_meets_beside_its_own_store) {
  const Variables two_hosts = with(with(kTorchrun, "LOCAL_WORLD_SIZE", "2"), "LOCAL_RANK", "1");
  const Launch launch = launch_under(two_hosts);
  CHECK(launch.address == "127.0.0.1" && launch.local_size == 2);
  CHECK(launch.port > 29500 && launch.port <= 30000);
  const Launch peer = launch_under(with(two_hosts, "RANK", "0"));
  CHECK(peer.port == launch.port && peer.secret == launch.secret);
  const Launch chosen = launch_under(with(with(two_hosts, "ONSTREAM_PORT", "4711"), "ONSTREAM_SECRET", "s"));
  CHECK(chosen.port == 4711 && chosen.secret == "s");
}

CASE(torchrun_variables_come_together) {
  CHECK_THROWS(launch_under(without(kTorchrun, "RANK")), "RANK is missing though WORLD_SIZE is set");
  CHECK_THROWS(launch_under(without(kTorchrun, "WORLD_SIZE")), "WORLD_SIZE is missing though RANK is set");
  CHECK_THROWS(launch_under(without(kTorchrun, "MASTER_ADDR")), "MASTER_ADDR is missing");
  CHECK_THROWS(launch_under(without(kTorchrun, "MASTER_PORT")), "MASTER_PORT is missing");
  CHECK(launch_under({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size == 1);
}

CASE(open_mpi_names_its_job) {
  const Launch launch = launch_under(kOpenMpi);
  CHECK(launch.launcher == "open mpi" && launch.rank == 1 && launch.size == 2 && launch.local_rank == 1);
  CHECK(launch.address.starts_with("unix:onstream-"));
  CHECK(launch_under(with(kOpenMpi, "PMIX_NAMESPACE", "prterun-host-23824@1")).address != launch.address);
  CHECK_THROWS(launch_under(without(kOpenMpi, "PMIX_NAMESPACE")), "ONSTREAM_ADDRESS");
  const Variables older = with(without(kOpenMpi, "PMIX_NAMESPACE"), "OMPI_MCA_ess_base_jobid", "2345");
  CHECK(launch_under(older).address.starts_with("unix:onstream-"));
}

CASE(open_mpi_on_several_hosts_needs_the_address) {
  const Variables two_hosts =
      with(with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "1"), "OMPI_COMM_WORLD_LOCAL_RANK", "0");
  CHECK_THROWS(launch_under(two_hosts), "mpirun -x ONSTREAM_ADDRESS=");
  const Launch launch = launch_under(with(two_hosts, "ONSTREAM_ADDRESS", "node01"));
  CHECK(launch.address == "node01" && launch.port >= 20000 && launch.port < 30000);
}

CASE(mpich_without_a_hydra_ancestor_is_explained) {
  const Variables mpich = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
  CHECK_THROWS(launch_under(mpich), "no hydra process is an ancestor");
  const Launch launch = launch_under(with(mpich, "ONSTREAM_ADDRESS", "unix:job"));
  CHECK(launch.launcher == "mpich" && launch.address == "unix:job" && launch.local_size == 2);
}

CASE(slurm_steps_are_jobs_and_batch_scripts_are_not) {
  const Launch launch = launch_under(kSlurm);
  CHECK(launch.launcher == "slurm" && launch.rank == 2 && launch.size == 3 && launch.local_size == 3);
  CHECK(launch.address.starts_with("unix:onstream-"));
  CHECK(launch_under(with(kSlurm, "SLURM_STEP_ID", "1")).address != launch.address);
  CHECK(launch_under(without(kSlurm, "SLURM_STEP_ID")).launcher == "none");
  // srun --mpi=pmi2 sets these beside.
  CHECK(launch_under(with(with(kSlurm, "PMI_RANK", "2"), "PMI_SIZE", "3")).launcher == "slurm");
}

CASE(slurm_on_several_hosts_meets_at_the_first) {
  Variables two_hosts = with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", "2,1");
  two_hosts =
      with(with(with(two_hosts, "SLURM_NODEID", "1"), "SLURM_LOCALID", "0"), "SLURM_STEP_NODELIST", "gpu[07-08]");
  const Launch launch = launch_under(two_hosts);
  CHECK(launch.address == "gpu07" && launch.local_size == 1 && launch.port >= 20000 && launch.port < 30000);
}

CASE(slurm_texts_are_read) {
  CHECK(slurm_tasks_on_node("4", 0) == 4);
  CHECK(slurm_tasks_on_node("2(x3),1", 2) == 2);
  CHECK(slurm_tasks_on_node("2(x3),1", 3) == 1);
  CHECK_THROWS(slurm_tasks_on_node("2(x3),1", 4), "no entry");
  for (const char* bad : {"", "x", "2(", "2(x", "2(x3", "2(x3,1", "2,", "-1"})
    CHECK_THROWS(slurm_tasks_on_node(bad, 9), concat("'", bad, "'"));
  CHECK(slurm_first_host("tux") == "tux");
  CHECK(slurm_first_host("tux1,tux2") == "tux1");
  CHECK(slurm_first_host("node[07-09,12],login1") == "node07");
  CHECK(slurm_first_host("rack[3]-ib,x") == "rack3-ib");
  CHECK_THROWS(slurm_first_host("node[07"), "'node[07'");
}

CASE(a_launch_without_the_dead_numbers_the_living_anew) {
  const Launch all{
      .rank = 3, .size = 5, .local_rank = 3, .local_size = 5, .address = "unix:here", .secret = "s", .generation = ""};
  const Launch rest = all.without({4, 1, 1});
  CHECK(rest.rank == 2 && rest.size == 3 && rest.local_size == 3 && rest.local_rank == 3);  // it picks the GPU
  CHECK(rest.secret == "s" && rest.address.starts_with("unix:onstream-") && rest.address != all.address);
  Launch other = all;
  other.rank = other.local_rank = 0;
  CHECK(other.without({1, 4}).address == rest.address && other.without({1}).address != rest.address);
  CHECK(all.without({}).address == all.address);
  CHECK_THROWS(all.without({3}), "rank 3 is this process itself");
  CHECK_THROWS(all.without({5}), "rank 5 is not one of this job's 0 to 4");
  const Launch far{
      .rank = 1, .size = 4, .local_size = 2, .address = "gpu07", .port = 20000, .secret = "s", .generation = ""};
  CHECK(far.without({0}).address == "gpu07" && far.without({0}).port == 20000 && far.without({0}).local_size == 2);
  CHECK(far.without({0, 3}).local_size == 1);  // the two that are left may be on two hosts
}

CASE(process_stat_survives_names_with_parentheses) {
  std::string text = "42 (a) b (c)) S 7";
  for (int field = 5; field < 22; ++field) text += concat(' ', field);
  text += " 123456 99";
  const ProcessStat stat = parse_process_stat(text);
  CHECK(stat.name == "a) b (c)" && stat.parent == 7 && stat.start_time == "123456");
  for (const char* bad : {"", "42", "42 (x", "42 (x) S", "42 (x) S 7 1 2"}) CHECK(parse_process_stat(bad).parent == 0);
}

}  // namespace

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
