#pragma once

#include "plan/fields.h"
#include "plan/profile.h"

namespace taxon::plan {

// The keys of a profile; see fields.h.

template <Like<ParameterProfile> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "name", .sentence = "Name of the parameter, as the framework calls it."}, p.name);
  visit(Field{.key = "shape", .sentence = "Its extents.", .min = 0}, p.shape);
  visit(Field{.key = "trainable", .sentence = "false: it is frozen and has no gradient."}, p.trainable);
  visit(
      Field{.key = "gradient_from",
            .sentence = "From the start of the backward pass until the gradient's first elements are final.",
            .min = 0,
            .unit = Unit::Seconds},
      p.gradient_from);
  visit(Field{.key = "gradient",
              .sentence = "Until all of it is final; 0: with the segment's backward pass.",
              .min = 0,
              .unit = Unit::Seconds},
        p.gradient);
  visit(
      Field{.key = "linear",
            .sentence = "true: the weight, [outputs, inputs], of a linear layer that sees each sample once; "
                        "its gradient may travel as sufficient factors (exchange.levels.factors)."},
      p.linear);
}

template <Like<SegmentProfile> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "name", .sentence = "Name of this part of the forward pass."}, p.name);
  visit(Field{.key = "forward", .sentence = "Time of the forward pass.", .min = 0, .unit = Unit::Seconds},
        p.forward);
  visit(Field{.key = "backward", .sentence = "Time of the backward pass.", .min = 0, .unit = Unit::Seconds},
        p.backward);
  visit(Field{.key = "forward_flops",
              .sentence = "Floating-point operations of one sample's forward pass; a multiply-add is two.",
              .min = 0},
        p.forward_flops);
  visit(Field{.key = "backward_flops",
              .sentence = "Operations of its backward pass; 0: twice the forward pass's.",
              .min = 0},
        p.backward_flops);
  visit(Field{.key = "outputs",
              .sentence =
                  "Numbers of one sample that go on to the next segment; 0: not known, so that the model "
                  "can't be cut there.",
              .min = 0},
        p.outputs);
  visit(Field{.key = "parameters", .sentence = "Parameters that it reads first."}, p.parameters);
}

template <Like<ModelProfile> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "model", .sentence = "The model, as recipes call it."}, p.model);
  visit(Field{.key = "source", .sentence = "Where the figures come from: a machine, a paper."}, p.source);
  visit(Field{.key = "batch",
              .sentence = "Samples of one forward and backward pass; 0: operations were counted.",
              .min = 0},
        p.batch);
  visit(Field{.key = "compute", .sentence = "Type in which it was measured."}, p.compute);
  visit(Field{.key = "threads", .sentence = "Threads with which it was measured.", .min = 0}, p.threads);
  visit(Field{.key = "tensor",
              .sentence = "mesh.tensor under which it was measured: above 1 layers are the parts that one of "
                          "so many members has.",
              .min = 1},
        p.tensor);
  visit(Field{.key = "divisible",
              .sentence =
                  "false: the backward pass can't be taken segment by segment (exchange.gradients: ring)."},
        p.divisible);
  visit(Field{.key = "input", .sentence = "Shape of one sample.", .min = 1}, p.input);
  visit(Field{.key = "classes", .sentence = "Classes of the labels.", .min = 0}, p.classes);
  visit(Field{.key = "update",
              .sentence = "Time of the update of all parameters.",
              .min = 0,
              .unit = Unit::Seconds},
        p.update);
  visit(Field{.key = "read",
              .sentence = "Time of reading a batch from the data set; 0: not measured.",
              .min = 0,
              .unit = Unit::Seconds},
        p.read);
  visit(
      Field{
          .key = "buffers", .sentence = "Elements of each buffer, such as batch-norm statistics.", .min = 0},
      p.buffers);
  visit(Field{.key = "completion",
              .sentence = "Trained parameters in the order in which their gradients complete; empty: the "
                          "reverse of the segments'."},
        p.completion);
  visit(Field{.key = "segments", .sentence = "Consecutive parts of the forward pass."}, p.segments);
}

}  // namespace taxon::plan
