#include "plan/survey.h"

#include <fmt/format.h>

#include <sstream>

namespace taxon::plan {
namespace {

constexpr SurveyRow kSurvey[] = {
    {"1-bit Adam", "Tang et al., ICML 2021", "1bit-adam", ""},
    {"AD-PSGD", "Lian et al., ICML 2018", "ad-psgd", ""},
    {"BAGUA", "Gan et al., VLDB 2022", "1bit-adam d-psgd qsgd",
     "gossip of compressed differences; its algorithms for single GPUs' nodes"},
    {"BigDL", "Dai et al., SoCC 2019", "bigdl", ""},
    {"Bosen, Petuum", "Wei et al., SoCC 2015", "bosen", "order by magnitude, bounds of values"},
    {"BytePS", "Jiang et al., OSDI 2020", "byteps", "shares of servers by their hosts' bandwidth"},
    {"Caffe2", "Goyal et al., 2017", "caffe2", ""},
    {"CaffeOnSpark", "Yahoo, 2016", "caffe-on-spark", "Spark's executors"},
    {"ChainerMN", "Akiba et al., 2017", "chainermn", ""},
    {"CNTK", "Seide et al., Interspeech 2014; Chen and Huo, ICASSP 2016", "1bit-sgd cntk-bmuf", ""},
    {"CocktailSGD", "Wang et al., ICML 2023", "cocktail-sgd", ""},
    {"COTS HPC", "Coates et al., ICML 2013", "cots-hpc", "layers of local receptive fields, cut in space"},
    {"DC-ASGD", "Zheng et al., ICML 2017", "dc-asgd", ""},
    {"Deeplearning4j", "Eclipse, 2014", "deeplearning4j strom sparknet",
     "workers that don't wait for each other's signs; a memory that is clipped"},
    {"DeepSpark", "Kim et al., 2016", "deepspark", ""},
    {"DeMo", "Peng, Quesnelle and Kingma, 2024", "demo", ""},
    {"DGC", "Lin et al., ICLR 2018", "dgc", ""},
    {"DiLoCo", "Douillard et al., 2023 and 2025", "diloco diloco-int8 streaming-diloco", ""},
    {"DistBelief", "Dean et al., NeurIPS 2012", "distbelief downpour",
     "replicas split over hosts before servers: meshes of several axes need gradients that are summed in "
     "step"},
    {"dist-keras", "Hermans, 2016", "adag downpour dynsgd eamsgd easgd", ""},
    {"D-PSGD", "Lian et al., NeurIPS 2017", "d-psgd", "mixing beside the gradient's computation"},
    {"EASGD, EAMSGD", "Zhang, Choromanska and LeCun, NeurIPS 2015", "easgd easgd-sync eamsgd", ""},
    {"EF-signSGD", "Karimireddy et al., ICML 2019", "ef-signsgd", ""},
    {"Elephas", "Pumperla, 2015", "downpour", "Spark's executors"},
    {"FireCaffe", "Iandola et al., CVPR 2016", "firecaffe", ""},
    {"FlexFlow, Tofu", "Jia et al., MLSys 2019; Wang et al., EuroSys 2019", "",
     "a search over splits of each operator: mesh.splits [auto] chooses among splits of layers"},
    {"Gaia", "Hsieh et al., NSDI 2017", "gaia", "barriers and mirrors of clocks: data centres keep step"},
    {"GeePS", "Cui et al., EuroSys 2016", "geeps",
     "parameters that move between a GPU's memory and its host's"},
    {"GossipGraD", "Daily et al., 2018", "gossipgrad", ""},
    {"Gossip SGD, GoSGD", "Jin et al., 2016; Blot et al., 2016", "gossiping-sgd gosgd",
     "partners who are not waited for"},
    {"GPipe", "Huang et al., NeurIPS 2019", "gpipe", ""},
    {"gs-SGD", "Dai et al., 2021", "gs-sgd gs-sgd-split", ""},
    {"gTop-k", "Shi et al., ICDCS 2019", "gtopk", ""},
    {"Horovod", "Sergeev and Del Balso, 2018; Maleki et al., MLSys 2021", "horovod adasum", ""},
    {"Intel PCL-DNN, MLSL", "Das et al., 2016", "pcl-dnn",
     "groups of each layer's own size: mesh.tensor has one for all that are split; taxon parallel says "
     "which, bench/run pcl-dnn simulates it"},
    {"Local SGD", "Stich, ICLR 2019; Lin et al., ICLR 2020", "local-sgd post-local-sgd", ""},
    {"Megatron-LM", "Shoeybi et al., 2019; Narayanan et al., SC 2021", "megatron pipedream-flush", ""},
    {"Mesh-TensorFlow", "Shazeer et al., NeurIPS 2018", "",
     "layouts by named dimensions: mesh.tensor has one for each kind of layer"},
    {"MPCA SGD", "Langer et al., TPDS 2018", "mpca-proxy",
     "its rule, whose text was not to be had: the recipe is a proxy in EASGD's family"},
    {"MXNet", "Chen et al., 2015", "mxnet-sync mxnet-async mxnet-2bit",
     "groups of layers on other devices: model parallelism"},
    {"MXNet-MPI", "Mamidala et al., 2018", "omnivore", "elastic averaging between groups"},
    {"Ok-Topk", "Li and Hoefler, PPoPP 2022", "ok-topk", ""},
    {"Omnivore", "Hadjis et al., 2016", "omnivore",
     "merged servers of fully connected layers; a tuner of the groups' number"},
    {"P3", "Jayarajan et al., SysML 2019", "p3", ""},
    {"PaddlePaddle", "Baidu, 2016", "paddlepaddle mxnet-async dgc", "sparse parameters"},
    {"Parallax", "Kim et al., EuroSys 2019", "",
     "sparse parameters at servers beside dense ones by all-reduce: no bundled model has sparse gradients "
     "(gpt's embedding is its logits' matrix too), and all buckets take one way"},
    {"Parameter Server", "Li et al., OSDI 2014", "li-parameter-server",
     "filters of messages; replicated ranges of keys"},
    {"PipeDream", "Narayanan et al., SOSP 2019", "pipedream",
     "streams without a flush between steps, and replicas of one stage that take turns"},
    {"PipeDream-2BW, PipeDream-Flush", "Narayanan et al., ICML 2021", "pipedream-2bw pipedream-flush",
     "their planner"},
    {"Poseidon", "Zhang et al., ATC 2017", "poseidon", ""},
    {"PowerAI DDL", "Cho et al., 2017", "powerai-ddl",
     "dimensions of the network: the grid is as square as the number of workers allows"},
    {"PowerSGD", "Vogels et al., NeurIPS 2019", "powersgd", ""},
    {"Project Adam", "Chilimbi et al., OSDI 2014", "project-adam",
     "replicas split over hosts; servers that get sufficient factors and answer with weights"},
    {"PyTorch DDP", "Li et al., VLDB 2020", "pytorch-ddp powersgd post-local-sgd", ""},
    {"PyTorch FSDP", "Zhao et al., VLDB 2023", "fsdp",
     "units that the user wraps; parameters in the memory of a host beside its GPU"},
    {"QSGD", "Alistarh et al., NeurIPS 2017", "qsgd", ""},
    {"Rudra", "Gupta et al., ICDM 2016", "rudra-softsync", "trees of servers"},
    {"Sandblaster L-BFGS", "Dean et al., NeurIPS 2012", "",
     "a batch method: an update takes many evaluations of the loss and dot products of whole vectors of the "
     "past, where a step here is one gradient and one update"},
    {"S-Caffe, MaTEx, Inspur-Caffe", "Awan et al., PPoPP 2017; Vishnu et al., 2016", "chainermn", ""},
    {"SGP", "Assran et al., ICML 2019", "sgp", "overlap by stale partners"},
    {"signSGD", "Bernstein et al., ICLR 2019", "signsgd-mv", ""},
    {"SINGA", "Ooi et al., MM 2015", "singa paddlepaddle horovod downpour",
     "groups whose layers are split before servers; Hogwild inside a process"},
    {"Sketched-SGD", "Ivkin et al., NeurIPS 2019", "sketched-sgd", ""},
    {"SlowMo", "Wang et al., ICLR 2020", "slowmo", ""},
    {"SparkNet", "Moritz et al., ICLR 2016", "sparknet", ""},
    {"SparseLoCo", "Sarfi et al., 2025", "sparse-loco", ""},
    {"SpeeDO", "Zheng et al., LearningSys 2015", "downpour easgd", ""},
    {"STRADS", "Lee et al., NeurIPS 2014; Kim et al., EuroSys 2016", "",
     "blocks of parameters that a scheduler hands to workers by their dependences: a step here updates all "
     "parameters, at whoever holds them"},
    {"Strom", "Strom, Interspeech 2015", "strom", "workers that don't wait for each other"},
    {"TensorFlow", "Abadi et al., OSDI 2016; Chen et al., 2016", "tensorflow-backup",
     "operations placed on other hosts: model parallelism"},
    {"TernGrad", "Wen et al., NeurIPS 2017", "terngrad", ""},
    {"Theano-MPI", "Ma, Mao and Taylor, 2016", "theano-mpi easgd", ""},
    {"Top-k", "Aji and Heafield, EMNLP 2017", "topk", ""},
    {"ZeRO", "Rajbhandari et al., SC 2020", "zero-3",
     "its later stages that keep state on disks (ZeRO-Infinity)"},
    {"Zero bubble", "Qi et al., ICLR 2024", "zero-bubble",
     "its schedules with more memory and no bubble at all"},
};

}  // namespace

std::span<const SurveyRow> survey() { return kSurvey; }

std::string survey_table() {
  std::string table = "| system | published | recipes | out of reach |\n|---|---|---|---|\n";
  for (const SurveyRow& row : kSurvey) {
    std::istringstream words{std::string(row.recipes)};
    std::string links;
    for (std::string name; words >> name;)
      links += fmt::format("{0}[{1}]({1}.yaml)", links.empty() ? "" : ", ", name);
    table += fmt::format("| {} | {} | {} | {} |\n", row.system, row.source, links.empty() ? "none" : links,
                         row.missing);
  }
  return table;
}

}  // namespace taxon::plan
