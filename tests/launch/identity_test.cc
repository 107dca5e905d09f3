#include "launch/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "launch/error_file.h"

namespace taxon::launch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Environment merged(std::vector<Environment> parts) {
  Environment all;
  for (auto& part : parts)
    for (auto& [key, value] : part) all[key] = value;
  return all;
}

Identity identity_of(const Environment& env) {
  Identification found = identify(env);
  EXPECT_THAT(found.problems, IsEmpty());
  return found.identity;
}

/// The only problem, or all of them if there are more.
std::string problem_of(const Environment& env) {
  std::string all;
  for (const std::string& problem : identify(env).problems) all += (all.empty() ? "" : " | ") + problem;
  return all;
}

const Environment kTorchrun = {
    {"RANK", "5"},       {"WORLD_SIZE", "8"},      {"LOCAL_RANK", "1"},      {"LOCAL_WORLD_SIZE", "4"},
    {"GROUP_RANK", "1"}, {"MASTER_ADDR", "head"},  {"MASTER_PORT", "29400"}, {"TORCHELASTIC_RUN_ID", "x"},
    {"ROLE_RANK", "5"},  {"GROUP_WORLD_SIZE", "2"}};

/// What Open MPI 4.1.4 gives rank 1 of 2 on one host.
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"OMPI_COMM_WORLD_NODE_RANK", "1"},  {"PMIX_RANK", "1"},
                              {"PMIX_NAMESPACE", "44171265"},      {"OMPI_MCA_ess_base_jobid", "44171265"}};

/// Rank 5 of 7 on the second of three nodes.
const Environment kSlurm = {{"SLURM_PROCID", "3"},
                            {"SLURM_NTASKS", "7"},
                            {"SLURM_STEP_NUM_TASKS", "7"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_NODEID", "1"},
                            {"SLURM_NNODES", "3"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_JOB_ID", "1234"},
                            {"SLURM_STEP_TASKS_PER_NODE", "3,2(x2)"},
                            {"SLURM_STEP_NODELIST", "gnode[10,20-25]"},
                            {"SLURM_JOB_NODELIST", "anode1,gnode[10,20-25]"}};

TEST(Identity, NoLauncherIsRankZeroOfOne) {
  Identity id = identity_of({{"PATH", "/bin"}});
  EXPECT_EQ(id.rank, 0);
  EXPECT_EQ(id.world_size, 1);
  EXPECT_EQ(id.text, "no launcher: rank 0 of 1");
}

TEST(Identity, Torchrun) {
  Identity id = identity_of(kTorchrun);
  EXPECT_EQ(id.origin, "torchrun");
  EXPECT_EQ(id.rank, 5);
  EXPECT_EQ(id.world_size, 8);
  EXPECT_EQ(id.local_rank, 1);
  EXPECT_EQ(id.local_world_size, 4);
  EXPECT_EQ(id.node_rank, 1);
  EXPECT_EQ(id.master_addr, "head");
  EXPECT_EQ(id.master_port, 29400);
  EXPECT_EQ(id.text, "torchrun: rank 5 of 8, local rank 1 of 4, rank 0 at head:29400");
}

TEST(Identity, TorchrunsOwnStoreKeepsItsPort) {
  Identity id = identity_of(merged({kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}}));
  EXPECT_EQ(id.master_port, 29401);
  EXPECT_THAT(id.text, HasSubstr("head:29401 (port: beside torchrun's own store at 29400)"));
  EXPECT_EQ(identity_of(merged({kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}})).master_port, 29400);
  EXPECT_EQ(
      identity_of(merged({kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}}}))
          .master_port,
      65534);
}

TEST(Identity, TheInnermostLauncherWins) {
  Identity id = identity_of(merged({kSlurm, kTorchrun}));
  EXPECT_EQ(id.origin, "torchrun");
  EXPECT_EQ(id.rank, 5);
  EXPECT_EQ(identity_of(merged({kOpenMpi, kTorchrun})).origin, "torchrun");
  Identity mpi = identity_of(merged({kSlurm, kOpenMpi}));
  EXPECT_EQ(mpi.origin, "Open MPI");
  EXPECT_EQ(mpi.rank, 1);
  EXPECT_EQ(mpi.master_addr, "127.0.0.1");
}

TEST(Identity, Plain) {
  Identity id =
      identity_of({{"RANK", "2"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1234"}});
  EXPECT_EQ(id.origin, "plain RANK/WORLD_SIZE");
  EXPECT_EQ(id.rank, 2);
  EXPECT_EQ(id.local_world_size, 1);
  EXPECT_EQ(id.master_port, 1234);
  Identity here = identity_of({{"RANK", "2"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}});
  EXPECT_EQ(here.local_world_size, 3);
  EXPECT_EQ(here.local_rank, 2);
  EXPECT_EQ(here.master_port, 29500);
  EXPECT_THAT(here.text, HasSubstr("MASTER_PORT is not set"));
  EXPECT_EQ(identity_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).world_size, 1);
}

TEST(Identity, PlainMistakesAreAllListed) {
  EXPECT_THAT(problem_of({{"RANK", "1"}}), HasSubstr("rank 1, but no number of ranks: set WORLD_SIZE"));
  EXPECT_THAT(problem_of({{"WORLD_SIZE", "4"}}), HasSubstr("each would be rank 0 of 1"));
  EXPECT_THAT(problem_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "h"}}),
              HasSubstr("RANK=4 is outside of a world of 4"));
  EXPECT_THAT(problem_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), HasSubstr("MASTER_ADDR is not set"));
  Identification bad = identify({{"RANK", "one"}, {"WORLD_SIZE", "2x"}, {"LOCAL_RANK", "-1"}});
  EXPECT_THAT(bad.problems,
              ElementsAre("RANK='one' is not a whole number", "WORLD_SIZE='2x' is not a whole number",
                          "LOCAL_RANK='-1' is not a whole number"));
  EXPECT_THAT(
      problem_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "70000"}}),
      HasSubstr("MASTER_PORT=70000 is not a port"));
  EXPECT_THAT(
      problem_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "2"}}),
      HasSubstr("local rank 3 of 2"));
}

TEST(Identity, OpenMpiOnOneHostNeedsNoAddress) {
  Identity id = identity_of(kOpenMpi);
  EXPECT_EQ(id.origin, "Open MPI");
  EXPECT_EQ(id.rank, 1);
  EXPECT_EQ(id.world_size, 2);
  EXPECT_EQ(id.local_rank, 1);
  EXPECT_EQ(id.node_rank, std::nullopt);
  EXPECT_EQ(id.master_addr, "127.0.0.1");
  EXPECT_GE(id.master_port, 12000);
  EXPECT_LT(id.master_port, 28000);
  EXPECT_THAT(id.text, HasSubstr("(port: from the job's id 44171265)"));
  Environment other = kOpenMpi, peer = kOpenMpi;
  other["PMIX_NAMESPACE"] = "44171266";
  peer["OMPI_COMM_WORLD_RANK"] = peer["OMPI_COMM_WORLD_LOCAL_RANK"] = peer["PMIX_RANK"] = "0";
  EXPECT_NE(identity_of(other).master_port, id.master_port);
  EXPECT_EQ(identity_of(peer).master_port, id.master_port);
}

TEST(Identity, OpenMpiOnSeveralHostsNeedsAnAddress) {
  Environment env =
      merged({kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}});
  EXPECT_THAT(problem_of(env),
              AllOf(HasSubstr("MASTER_ADDR is not set"), HasSubstr("mpirun -x MASTER_ADDR=")));
  env["MASTER_ADDR"] = "node1";
  Identity id = identity_of(env);
  EXPECT_EQ(id.master_addr, "node1");
  EXPECT_GE(id.master_port, 12000);
  env["MASTER_PORT"] = "4000";
  EXPECT_EQ(identity_of(env).master_port, 4000);
}

TEST(Identity, MpichAndIntelMpi) {
  Environment env = {
      {"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}};
  Identity id = identity_of(env);
  EXPECT_EQ(id.origin, "MPICH or Intel MPI");
  EXPECT_EQ(id.rank, 1);
  EXPECT_EQ(id.local_world_size, 4);
  EXPECT_EQ(id.master_addr, "127.0.0.1");
  env["MPI_LOCALNRANKS"] = "2";
  EXPECT_THAT(problem_of(env), HasSubstr("-genv MASTER_ADDR"));
}

TEST(Identity, Mvapich2AgreesWithItsPmi) {
  Environment env = {{"MV2_COMM_WORLD_RANK", "1"},
                     {"MV2_COMM_WORLD_SIZE", "2"},
                     {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                     {"MV2_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"PMI_RANK", "1"},
                     {"PMI_SIZE", "2"}};
  EXPECT_EQ(identity_of(env).origin, "MVAPICH2");
  EXPECT_EQ(identity_of(env).rank, 1);
}

TEST(Identity, Pals) {
  Identity id = identity_of({{"PALS_RANKID", "3"},
                             {"PALS_LOCAL_RANKID", "1"},
                             {"PALS_NODEID", "1"},
                             {"PALS_APID", "ab-12"},
                             {"PMI_RANK", "3"},
                             {"PMI_SIZE", "4"},
                             {"PMI_LOCAL_SIZE", "2"},
                             {"PMIX_RANK", "3"},
                             {"MASTER_ADDR", "x1"}});
  EXPECT_EQ(id.origin, "PALS");
  EXPECT_EQ(id.world_size, 4);
  EXPECT_EQ(id.local_rank, 1);
  EXPECT_EQ(id.local_world_size, 2);
  EXPECT_EQ(id.node_rank, 1);
}

TEST(Identity, PmixAloneSaysTooLittle) {
  EXPECT_THAT(problem_of({{"PMIX_RANK", "0"}}), HasSubstr("set RANK, WORLD_SIZE and MASTER_ADDR"));
}

TEST(Identity, SlurmOverSeveralNodes) {
  Identity id = identity_of(kSlurm);
  EXPECT_EQ(id.origin, "Slurm");
  EXPECT_EQ(id.rank, 3);
  EXPECT_EQ(id.world_size, 7);
  EXPECT_EQ(id.local_rank, 0);
  EXPECT_EQ(id.local_world_size, 2);
  EXPECT_EQ(id.node_rank, 1);
  EXPECT_EQ(id.master_addr, "gnode10");
  EXPECT_THAT(id.text, HasSubstr("(port: from the job's id 1234.0)"));
  Environment second_step = merged({kSlurm, {{"SLURM_STEP_ID", "1"}}});
  EXPECT_NE(identity_of(second_step).master_port, id.master_port);
}

TEST(Identity, SlurmsFirstNodeHasAnAddressInReserve) {
  const Environment address{{"SLURM_LAUNCH_NODE_IPADDR", "10.9.8.7"}};
  Identity id = identity_of(merged({kSlurm, address}));
  EXPECT_EQ(id.master_addr, "gnode10");
  EXPECT_EQ(id.other_master_addr, "10.9.8.7");
  // Nobody's guess is better than what is said.
  Identity told = identity_of(merged({kSlurm, address, {{"MASTER_ADDR", "head"}}}));
  EXPECT_EQ(told.master_addr, "head");
  EXPECT_EQ(told.other_master_addr, "");
}

TEST(Identity, SlurmWithPmixOrPmi2TakesTheNodesFromSlurm) {
  Identity pmix = identity_of(merged({kSlurm, {{"PMIX_RANK", "3"}}}));
  EXPECT_EQ(pmix.origin, "Slurm");
  Identity pmi = identity_of(merged({kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "7"}}}));
  EXPECT_EQ(pmi.origin, "MPICH or Intel MPI");
  EXPECT_EQ(pmi.master_addr, "gnode10");
  EXPECT_EQ(pmi.local_world_size, 2);
}

TEST(Identity, SlurmsSizeHasManyNames) {
  Environment env = kSlurm;
  env.erase("SLURM_STEP_NUM_TASKS");
  EXPECT_EQ(identity_of(env).world_size, 7);
  env.erase("SLURM_NTASKS");
  EXPECT_EQ(identity_of(env).world_size, 7);  // 3,2(x2)
  env.erase("SLURM_STEP_TASKS_PER_NODE");
  env["SLURM_NTASKS_PER_NODE"] = "2";
  EXPECT_EQ(identity_of(env).world_size, 6);
}

TEST(Identity, AnAllocationWithoutSrunIsNoIdentity) {
  Environment env = kSlurm;
  for (const char* id : {"", "4294967290", "4294967291", "batch"}) {
    env["SLURM_STEP_ID"] = id;
    EXPECT_EQ(identity_of(env).origin, "no launcher") << id;
  }
  env.erase("SLURM_STEP_ID");
  EXPECT_EQ(identity_of(env).world_size, 1);
}

TEST(Identity, SlurmsTextIsChecked) {
  EXPECT_THAT(problem_of(merged({kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(3)"}}})),
              HasSubstr("SLURM_STEP_TASKS_PER_NODE=2(3) is not in Slurm's form"));
  EXPECT_THAT(problem_of(merged({kSlurm, {{"SLURM_STEP_NODELIST", "gnode[1"}}})),
              HasSubstr("SLURM_STEP_NODELIST=gnode[1 is not in Slurm's form"));
}

TEST(Identity, LaunchersOfOneLevelMustAgree) {
  Environment env = merged({kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}});
  EXPECT_THAT(problem_of(env),
              HasSubstr("plain RANK/WORLD_SIZE says rank 0 of 2, but Open MPI says rank 1 of 2: unset"));
  env["RANK"] = "1";
  EXPECT_EQ(identity_of(env).rank, 1);
  EXPECT_THAT(problem_of(merged({kOpenMpi, {{"PMIX_RANK", "0"}}})), HasSubstr("PMIx says rank 0"));
}

TEST(Identity, ManyProcessesThatAreAllRankZeroOfOneAreRefused) {
  Environment singletons = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  EXPECT_THAT(problem_of(merged({kSlurm, singletons})),
              HasSubstr("Slurm has started 7 processes, but Open MPI tells each that it is rank 0 of 1"));
  EXPECT_THAT(problem_of({{"OMPI_COMM_WORLD_SIZE", "4"}}),
              HasSubstr("Open MPI has started 4 processes, but OMPI_COMM_WORLD_RANK is not set"));
  Environment lost = kSlurm;
  lost.erase("SLURM_PROCID");
  EXPECT_THAT(problem_of(lost), HasSubstr("Slurm has started 7 processes, but SLURM_PROCID is not set"));
}

TEST(Identity, APodIsOneRank) {
  Environment pod = {{"PET_NNODES", "3"},
                     {"PET_NPROC_PER_NODE", "1"},
                     {"PET_NODE_RANK", "2"},
                     {"PET_MASTER_ADDR", "pod-0"},
                     {"PET_MASTER_PORT", "29400"}};
  Identity id = identity_of(pod);
  EXPECT_EQ(id.origin, "Kubeflow (PET_*)");
  EXPECT_EQ(id.rank, 2);
  EXPECT_EQ(id.world_size, 3);
  EXPECT_EQ(id.master_addr, "pod-0");
  EXPECT_EQ(id.master_port, 29400);
  // RANK counts pods here and so says nothing new.
  EXPECT_EQ(identity_of(merged({pod, {{"RANK", "2"}, {"WORLD_SIZE", "3"}}})).origin, "Kubeflow (PET_*)");
  EXPECT_EQ(identity_of(merged({pod, kTorchrun})).origin, "torchrun");
}

TEST(Identity, APodsOtherForms) {
  Identity id =
      identity_of({{"PET_NNODES", "2:2"}, {"PET_NODE_RANK", "1"}, {"PET_RDZV_ENDPOINT", "pod-0:2222"}});
  EXPECT_EQ(id.world_size, 2);
  EXPECT_EQ(id.master_addr, "pod-0");
  EXPECT_EQ(id.master_port, 2222);
  id = identity_of({{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"PET_RDZV_ENDPOINT", "[fd00::1]:2222"}});
  EXPECT_EQ(id.master_addr, "fd00::1");
  EXPECT_EQ(id.master_port, 2222);
  EXPECT_THAT(problem_of({{"PET_NNODES", "1:4"}}), HasSubstr("grows and shrinks"));
  EXPECT_THAT(problem_of({{"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", "4"}}),
              HasSubstr("torchrun --no_python taxon train"));
}

TEST(Slurm, TasksPerNode) {
  EXPECT_EQ(slurm_tasks_per_node("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(slurm_tasks_per_node("16"), (std::vector<int>{16}));
  EXPECT_EQ(slurm_tasks_per_node("1(x2),4,2(x1)"), (std::vector<int>{1, 1, 4, 2}));
  for (const char* bad : {"", "x", "2(", "2(x", "2(x3", "2(x0)", "2,", ",2", "2(x99999999)", "-1"})
    EXPECT_EQ(slurm_tasks_per_node(bad), std::nullopt) << bad;
}

TEST(Slurm, FirstHost) {
  EXPECT_EQ(slurm_first_host("gnode[10,20-25],b1"), "gnode10");
  EXPECT_EQ(slurm_first_host("gnode[020-025]"), "gnode020");
  EXPECT_EQ(slurm_first_host("b1,c2"), "b1");
  EXPECT_EQ(slurm_first_host("rack[2-3]n[01,04]x"), "rack2n01x");
  for (const char* bad : {"", ",a", "a[1", "a[]", "a]"})
    EXPECT_EQ(slurm_first_host(bad), std::nullopt) << bad;
}

TEST(ErrorFile, IsWhatTorchrunReads) {
  std::string path = testing::TempDir() + "/error." + std::to_string(getpid()) + ".json";
  write_error_file(path, "data", "train.idx is \xff cut short");
  auto json = nlohmann::json::parse(std::ifstream(path));
  EXPECT_THAT(json["message"]["message"].get<std::string>(), HasSubstr("data: train.idx is"));
  EXPECT_GT(std::stoll(json["message"]["extraInfo"]["timestamp"].get<std::string>()), 1'600'000'000);
  std::remove(path.c_str());
  write_error_file("/no/such/folder/error.json", "data", "x");  // and says nothing
}

}  // namespace
}  // namespace taxon::launch
