#include "plan/survey.h"

namespace taxon::plan {
namespace {

// Stages train with one version of the weights, and one split of layers holds for all of a model.
constexpr std::string_view kVersions =
    "training with older versions of the weights: taxon schedule draws, checks and costs its schedule";

constexpr SurveyRow kRows[] = {
    {"AD-PSGD", "ad-psgd", ""},
    {"BAGUA", "1bit-adam d-psgd qsgd",
     "gossip of compressed differences; its algorithms for single GPUs' nodes"},
    {"BigDL", "bigdl", ""},
    {"Bosen, Petuum", "bosen", "order by magnitude, bounds of values"},
    {"BytePS", "byteps", "shares of servers by their hosts' bandwidth"},
    {"Caffe2", "caffe2", ""},
    {"CaffeOnSpark", "bigdl", "Spark's executors"},
    {"ChainerMN", "chainermn", ""},
    {"CNTK", "1bit-sgd cntk-bmuf", ""},
    {"COTS HPC", "", "its network of local receptive fields: mesh.tensor splits bundled networks"},
    {"D-PSGD", "d-psgd", "mixing beside the gradient's computation"},
    {"DeepSpark", "deepspark", ""},
    {"Deeplearning4j", "strom sparknet",
     "thresholds that adapt, and workers that don't wait for each other's signs"},
    {"dist-keras", "adag downpour dynsgd eamsgd easgd", ""},
    {"DistBelief", "downpour",
     "replicas split over hosts before servers: meshes of several axes need gradients that are summed in "
     "step; Adagrad at servers; Sandblaster's L-BFGS"},
    {"EASGD, EAMSGD", "easgd easgd-sync eamsgd", ""},
    {"Elephas", "downpour", "Spark's executors"},
    {"FireCaffe", "firecaffe", ""},
    {"FlexFlow, Tofu", "",
     "a search over splits of each operator: mesh.tensor has one for each kind of layer"},
    {"Gaia", "gaia", "barriers and mirrors of clocks: data centres keep step"},
    {"GeePS", "geeps", "parameters that move between a GPU's memory and its host's"},
    {"GossipGraD", "gossipgrad", ""},
    {"Gossip SGD, GoSGD", "",
     "a random partner who gets weights and is not waited for; ad-psgd and sgp stand nearest"},
    {"GPipe", "gpipe", "activations that are computed again instead of kept"},
    {"Horovod", "horovod adasum", ""},
    {"Intel PCL-DNN, MLSL", "pcl-dnn",
     "groups of each layer's own size: mesh.tensor has one for all that are split; taxon parallel says "
     "which, "
     "bench/run pcl-dnn simulates it"},
    {"Megatron-LM", "pipedream-flush",
     "embeddings and logits split by vocabulary; layers are by mesh.tensor, stages by pipeline.schedule: "
     "interleaved"},
    {"Mesh-TensorFlow", "", "layouts by named dimensions: mesh.tensor has one for each kind of layer"},
    {"MPCA SGD", "", "the text with its rule was not to be had; easgd stands nearest"},
    {"MXNet", "mxnet-sync mxnet-async mxnet-2bit", "groups of layers on other devices: model parallelism"},
    {"MXNet-MPI", "omnivore", "elastic averaging between groups"},
    {"Omnivore", "omnivore", "merged servers of fully connected layers; a tuner of the groups' number"},
    {"PaddlePaddle", "mxnet-sync mxnet-async dgc", "sparse parameters"},
    {"Parallax", "",
     "sparse parameters at servers beside dense ones by all-reduce: all parameters are dense here"},
    {"Parameter Server", "li-parameter-server", "filters of messages; replicated ranges of keys"},
    {"PipeDream", "", kVersions},
    {"PipeDream-2BW, PipeDream-Flush", "pipedream-flush", kVersions},
    {"Poseidon", "poseidon", ""},
    {"PowerAI DDL", "", "rings of several colours at once over a torus: a message takes one ring here"},
    {"Project Adam", "",
     "replicas split over hosts; servers that get sufficient factors and answer with weights"},
    {"PyTorch DDP", "pytorch-ddp powersgd post-local-sgd", ""},
    {"PyTorch FSDP", "fsdp", "units that the user wraps; parameters in the memory of a host beside its GPU"},
    {"Rudra", "rudra-softsync", "trees of servers"},
    {"S-Caffe, MaTEx, Inspur-Caffe", "chainermn", ""},
    {"SGP", "sgp", "overlap by stale partners"},
    {"SINGA", "mxnet-sync downpour",
     "groups whose layers are split before servers; Hogwild inside a process"},
    {"SparkNet", "sparknet", ""},
    {"SpeeDO", "downpour easgd", ""},
    {"STRADS", "",
     "blocks of parameters that a scheduler hands to workers by their dependences: no worker has a part of "
     "the "
     "model here"},
    {"Strom", "strom", "workers that don't wait for each other"},
    {"TensorFlow", "tensorflow-backup", "operations placed on other hosts: model parallelism"},
    {"Theano-MPI", "easgd horovod", ""},
    {"ZeRO", "zero-3", "its later stages that keep state on disks (ZeRO-Infinity)"},
    {"Zero bubble", "zero-bubble", "its schedules with more memory and no bubble at all"},
};

}  // namespace

std::span<const SurveyRow> survey() { return kRows; }

}  // namespace taxon::plan
