#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/torch/exported/interpreter.h"
#include "parallel/split.h"

namespace taxon::model::exported {

/// Tries by which rows members could share a program's stages: whether what they make together is what one
/// makes. It is computed in double precision, in training, of values and parameters that stand for any, so
/// that no list of operators has to say which of them keep features, or samples, apart.
class SplitTrial {
 public:
  enum class Kind { Parameter, Buffer, Constant };
  struct Stored {
    at::Tensor tensor;
    Kind kind;
  };
  /// `exported`: the type that the program's constants name where they mean that of its parameters.
  SplitTrial(const Interpreter& program, at::ScalarType exported, const std::vector<Stored>& stored,
             int members);
  /// Why not, in words that follow "it can't be split by ...: "; empty: it can. `inputs`: how two samples
  /// come to the stage; their values don't count.
  std::string refusal(const Interpreter::Stage& stage, const parallel::SplitRow& row,
                      const at::Tensor& inputs) const;

 private:
  std::string uneven(const Interpreter::Part& part, const parallel::SplitRow& row,
                     const at::Tensor& inputs) const;
  bool adds_up(const Interpreter::Part& part, const parallel::SplitRow& row, const at::Tensor& inputs) const;
  /// What one of so many makes of its share.
  at::Tensor share(const Interpreter::Part& part, const parallel::SplitRow& row, const at::Tensor& inputs,
                   int member) const;
  int sharers(const parallel::SplitRow& row) const;

  Interpreter program_;
  std::vector<Stored> stored_;
  const int members_;
};

}  // namespace taxon::model::exported
