// Files that are cut short, damaged, or of something else end with one sentence.
#include "model/torch/exported/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "model/torch/exported/archive.h"
#include "model/torch/exported/forged.h"
#include "model/torch/exported/interpreter.h"
#include "model/torch/exported/networks.h"

namespace taxon::model::exported {
namespace {

using ::testing::HasSubstr;

/// What loading the file says; empty: it loads.
std::string complaint(const std::string& path) {
  try {
    Program program = read_program(path);
    Interpreter interpreter(std::move(program.graph));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Data);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "";
}

std::string bytes_of(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

TEST(ExportedProgram, ForgedFileLoads) { EXPECT_EQ(complaint(Forged("mlp").save()), ""); }

TEST(ExportedProgram, NoFileAndNoZip) {
  EXPECT_THAT(complaint("nowhere.pt2"), HasSubstr("there is no such file"));
  EXPECT_THAT(complaint(Forged("mlp").save_bytes("not a zip")), HasSubstr("zip"));
}

TEST(ExportedProgram, CutShortAnywhere) {
  const std::string whole = bytes_of(path_of("mlp.pt2"));
  const Forged forged("mlp");
  for (std::size_t size = 0; size < whole.size(); size += 211)
    EXPECT_NE(complaint(forged.save_bytes(whole.substr(0, size))), "") << size;
}

TEST(ExportedProgram, EveryDamagedByteIsNoticedOrHarmless) {
  const std::string whole = bytes_of(path_of("mlp.pt2"));
  const Forged forged("mlp");
  int noticed = 0, tried = 0;
  for (std::size_t at = 0; at < whole.size(); at += 97, ++tried) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    noticed += static_cast<int>(!complaint(forged.save_bytes(damaged)).empty());
  }
  EXPECT_GT(noticed, tried / 3);  // the rest is padding, and names and times that nobody reads
}

TEST(ExportedProgram, DamagedTextsAreNoticed) {
  // Checksums are right here, so it is the reader that must notice, or not mind.
  const Forged whole("mlp");
  const Archive archive(path_of("mlp.pt2"));
  for (const std::string name : {"models/model.json", "data/weights/model_weights_config.json"}) {
    const std::string text = archive.text(name);
    for (std::size_t at = 0; at < text.size(); at += 41) {
      std::string damaged = text;
      damaged[at] = damaged[at] == '0' ? '7' : '0';
      Forged forged("mlp");
      complaint(forged.member(name, damaged).save());
      complaint(forged.member(name, text.substr(0, at)).save());
    }
  }
}

TEST(ExportedProgram, CompressedMembers) {
  EXPECT_THAT(complaint(Forged("mlp").save(Forged::Packing::Deflated)),
              HasSubstr("is compressed or damaged"));
}

TEST(ExportedProgram, OtherArchives) {
  EXPECT_THAT(complaint(Forged("mlp").remove("archive_format").save()), HasSubstr("PyTorch 2.9 or newer"));
  EXPECT_THAT(complaint(Forged("mlp").member("models/other.json", "{}").save()),
              HasSubstr("holds 2 programs"));
  EXPECT_THAT(complaint(Forged("mlp").member("byteorder", "big").save()), HasSubstr("big-endian"));
  EXPECT_THAT(complaint(Forged("mlp").remove("data/weights/model_weights_config.json").save()),
              HasSubstr("export it with PyTorch 2.9 or newer"));
  EXPECT_THAT(complaint(Forged("mlp").remove("data/weights/weight_0").save()),
              HasSubstr("has no data/weights/weight_0"));
}

TEST(ExportedProgram, OtherSchemas) {
  EXPECT_THAT(complaint(Forged("mlp").graph("\"major\": 8", "\"major\": 9").save()),
              HasSubstr("has version 9.20 of torch.export's schema, written by PyTorch 2.15"));
  EXPECT_EQ(complaint(Forged("mlp").graph("\"minor\": 20", "\"minor\": 21").save()), "");
  EXPECT_THAT(complaint(Forged("mlp").graph("\"TRAINING\"", "\"EDGE\"").save()), HasSubstr("dialect EDGE"));
}

TEST(ExportedProgram, TensorsThatDoNotFitTheirBytes) {
  const auto with_shape = [](const std::string& sizes) {
    return complaint(Forged("mlp")
                         .weights("\"sizes\": [{\"as_int\": 16}, {\"as_int\": 36}]", "\"sizes\": " + sizes)
                         .save());
  };
  EXPECT_THAT(with_shape("[{\"as_int\": 17}, {\"as_int\": 36}]"),
              HasSubstr("takes more than the 576 elements"));
  EXPECT_THAT(with_shape("[{\"as_int\": -16}, {\"as_int\": 36}]"), HasSubstr("negative"));
  EXPECT_THAT(with_shape("[{\"as_int\": 16}]"), HasSubstr("as many strides"));
  EXPECT_THAT(with_shape("[{\"as_int\": 4611686018427387904}, {\"as_int\": 36}]"), HasSubstr("too large"));
  EXPECT_THAT(with_shape("[{\"as_expr\": {\"expr_str\": \"s0\"}}, {\"as_int\": 36}]"),
              HasSubstr("not known"));
  EXPECT_THAT(complaint(Forged("mlp").weights("\"dtype\": 7", "\"dtype\": 99").save()),
              HasSubstr("element type 99"));
  EXPECT_THAT(complaint(Forged("mlp").weights("\"use_pickle\": false", "\"use_pickle\": true").save()),
              HasSubstr("as a Python object"));
  EXPECT_THAT(
      complaint(Forged("mlp")
                    .weights("\"storage_offset\": {\"as_int\": 0}", "\"storage_offset\": {\"as_int\": -1}")
                    .save()),
      HasSubstr("before its memory"));
}

TEST(ExportedProgram, OperatorsThatAreNotUnderstood) {
  EXPECT_THAT(
      complaint(Forged("mlp").graph("torch.ops.aten.relu.default", "torch.ops.mine.relu.default").save()),
      HasSubstr("operator mine.relu.default at node relu"));
  EXPECT_THAT(
      complaint(Forged("mlp").graph("torch.ops.aten.relu.default", "torch.ops.higher_order.cond").save()),
      HasSubstr("operator higher_order.cond at node relu"));
  EXPECT_THAT(complaint(Forged("mlp").graph("torch.ops.aten.relu.default", "_operator.lshift").save()),
              HasSubstr("operator _operator.lshift at node relu"));
  EXPECT_THAT(complaint(Forged("mlp")
                            .graph("{\"name\": \"start_dim\", \"arg\": {\"as_int\": 1}",
                                   "{\"name\": \"begin\", \"arg\": {\"as_int\": 1}")
                            .save()),
              HasSubstr("which has no argument begin"));
  EXPECT_THAT(complaint(Forged("mlp")
                            .graph("{\"name\": \"start_dim\", \"arg\": {\"as_int\": 1}",
                                   "{\"name\": \"start_dim\", \"arg\": {\"as_string\": \"1\"}")
                            .save()),
              HasSubstr("whose argument start_dim is a text"));
  EXPECT_THAT(complaint(Forged("mlp")
                            .graph("{\"name\": \"start_dim\", \"arg\": {\"as_int\": 1}",
                                   "{\"name\": \"start_dim\", \"arg\": {\"as_graph\": 1}")
                            .save()),
              HasSubstr("a value of kind as_graph"));
  EXPECT_THAT(complaint(Forged("vit")
                            .graph("{\"as_tensors\": [{\"name\": \"expand\"}, {\"name\": \"transpose\"}]}",
                                   "{\"as_optional_tensors\": [{\"as_none\": true}, {\"as_none\": true}]}")
                            .save()),
              HasSubstr("whose argument tensors has an item that is none"));
}

TEST(ExportedProgram, AllUnknownOperatorsAreListedWithTheirLines) {
  const std::string why =
      complaint(Forged("gpt")
                    .graph("torch.ops.aten.gelu.default", "torch.ops.aten.gelu2.default")
                    .graph("torch.ops.aten.layer_norm.default", "torch.ops.aten.layer_norm2.default")
                    .save());
  EXPECT_THAT(why, HasSubstr("aten.layer_norm2.default at node layer_norm (make_networks.py, line "));
  EXPECT_THAT(why, HasSubstr("aten.gelu2.default at node gelu (make_networks.py, line "));
  EXPECT_THAT(why, HasSubstr("x = x + self.attention(self.norm1(x))"));
}

TEST(ExportedProgram, ValuesWithoutANodeBefore) {
  EXPECT_THAT(complaint(Forged("mlp")
                            .graph("{\"as_tensor\": {\"name\": \"relu\"}}, \"kind\"",
                                   "{\"as_tensor\": {\"name\": \"later\"}}, \"kind\"")
                            .save()),
              HasSubstr("no node before gives later"));
}

TEST(ExportedProgram, OperatorsThatOpenFiles) {
  EXPECT_THAT(
      complaint(
          Forged("mlp").graph("torch.ops.aten.relu.default", "torch.ops.aten.from_file.default").save()),
      HasSubstr("operator aten.from_file.default at node relu"));
  EXPECT_THAT(
      complaint(
          Forged("mlp").graph("torch.ops.aten.relu.default", "torch.ops.aten.from_file.default").save()),
      HasSubstr("which opens a file"));
}

TEST(ExportedProgram, TheFirstOfItsOutputsMustBeATensor) {
  const std::string logits = "{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"linear_1\"}}}}";
  const std::string none = "{\"user_output\": {\"arg\": {\"as_none\": true}}}";
  EXPECT_EQ(complaint(Forged("mlp").graph(logits, logits + ", " + none).save()), "");
  EXPECT_THAT(complaint(Forged("mlp").graph(logits, none + ", " + logits).save()),
              HasSubstr("gives as_none where a tensor of logits belongs"));
}

TEST(ExportedProgram, ExpandedTensorsAreBoundedInAll) {
  // Of some 2^25 elements each, which lie on the few that the file has: one may be, two may not.
  const auto described = [](const std::string& sizes, const std::string& strides) {
    return "\"sizes\": [" + sizes +
           "], \"requires_grad\": true, \"device\": {\"type\": \"cpu\", \"index\": null}, \"strides\": [" +
           strides + "]";
  };
  const std::string one = "{\"as_int\": 1}", none = "{\"as_int\": 0}", many = "{\"as_int\": 33555433}";
  Forged forged("mlp");
  forged.weights(described("{\"as_int\": 16}, {\"as_int\": 36}", "{\"as_int\": 36}, " + one),
                 described(many + ", " + one, none + ", " + one));
  EXPECT_EQ(complaint(forged.save()), "");
  forged.weights(described("{\"as_int\": 16}", one), described(many, none));
  EXPECT_THAT(complaint(forged.save()), HasSubstr("too large"));
}

TEST(ExportedProgram, EvaluationMode) {
  EXPECT_THAT(complaint(Forged("resnet")
                            .graph("\"name\": \"training\", \"arg\": {\"as_bool\": true}",
                                   "\"name\": \"training\", \"arg\": {\"as_bool\": false}")
                            .save()),
              HasSubstr("call model.train() before torch.export.export, or freeze the weights "
                        "(requires_grad = False) of norms whose statistics are to stay, as in operator "
                        "aten.batch_norm.default at node batch_norm"));
}

TEST(ExportedProgram, FrozenNormsMayKeepTheirStatistics) {
  EXPECT_EQ(complaint(Forged("resnet")
                          .graph("\"name\": \"training\", \"arg\": {\"as_bool\": true}",
                                 "\"name\": \"training\", \"arg\": {\"as_bool\": false}")
                          .weights("\"requires_grad\": true", "\"requires_grad\": false")
                          .save()),
            "");
}

}  // namespace
}  // namespace taxon::model::exported
