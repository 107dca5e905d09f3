#include "exchange/cast.h"

#include <algorithm>

namespace taxon::exchange {

void cast_range(const tensor::Arena& from, Range range, const tensor::Arena& to, std::size_t begin) {
  dispatch(from.type(), [&](auto source) {
    using From = decltype(source);
    dispatch(to.type(), [&](auto target) {
      using To = decltype(target);
      auto in = from.values<From>(range);
      auto out = to.values<To>({begin, range.size});
      if constexpr (std::is_same_v<From, To>)
        std::copy(in.begin(), in.end(), out.begin());
      else
        for (std::size_t i = 0; i < in.size(); ++i) out[i] = To(static_cast<float>(in[i]));
    });
  });
}

}  // namespace taxon::exchange
