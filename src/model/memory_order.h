#pragma once

#include "base/dtype.h"
#include "base/view.h"
#include "model/model.h"

namespace taxon::model {

/// A trainable parameter's values from the order of its shape to the one in which arenas have them
/// (ParameterSpec::channels_last), and back. Both views have its elements, of `type`, and do not overlap.
void to_arena(const ParameterSpec& parameter, DType type, ConstView values, View arena);
void from_arena(const ParameterSpec& parameter, DType type, ConstView arena, View values);

}  // namespace taxon::model
