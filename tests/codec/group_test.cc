// Several members: what they keep and what they apply are what they put in.

#include <algorithm>
#include <map>

#include "codec/cases.h"
#include "codec/feedback.h"

namespace taxon::codec::test {
namespace {

plan::CodecPlan plan_of(std::string_view name) {
  return {.name = std::string(name), .options = options_of()};
}

struct Member {
  Member(const CodecRow& row, const plan::CodecPlan& plan, std::size_t count, std::uint64_t own)
      : coder(row, plan.options, count), errors(count), velocity(plan.momentum > 0 ? count : 0) {
    coder.context.own = own;
  }
  Memory memory() { return {errors, velocity}; }
  Coder coder;
  std::vector<float> errors, velocity;
};

/// All members' exchange, with every wire in this process.
class Group {
 public:
  Group(const CodecRow& row, plan::CodecPlan plan, std::size_t count, int size) : plan_(plan) {
    for (int m = 0; m < size; ++m) members.emplace_back(row, plan, count, static_cast<std::uint64_t>(m));
  }

  /// The sum that everybody gets.
  std::vector<float> exchange(std::vector<std::vector<float>> gradients) {
    const Codec& codec = *members.front().coder.codec;
    const Feedback feedback(codec,
                            {.momentum = static_cast<float>(plan_.momentum), .masking = plan_.masking});
    if (codec.part_query()) return ask(feedback, std::move(gradients));
    const std::size_t rounds = codec.rounds().size();
    for (std::size_t r = 0; r < rounds; ++r) {
      for (std::size_t m = 0; m < members.size(); ++m) {
        Member& member = members[m];
        View wire = member.coder.wires[r].view();
        if (r == 0) {
          feedback.encode(gradients[m], member.memory(), wire, member.coder.context);
        } else {
          codec.absorb(static_cast<int>(r) - 1, member.errors, member.coder.wires[r - 1].view(),
                       member.coder.context);
          codec.encode(static_cast<int>(r), member.errors, wire, Residual::Stay, member.coder.context);
        }
      }
      if (codec.rounds()[r].algebra == Algebra::Linear) sum_up(r);
      if (codec.rounds()[r].algebra == Algebra::Mergeable) merge(r);
    }
    std::vector<float> sum(gradients.front().size());
    const bool each = codec.rounds().back().algebra == Algebra::Opaque ||
                      codec.rounds().back().algebra == Algebra::Divisible;
    for (std::size_t m = 0; m < members.size(); ++m)
      codec.decode(members[m].coder.last(), sum, m == 0 || !each ? Into::Assign : Into::Add,
                   members[each ? 0 : m].coder.context);
    for (Member& member : members)
      feedback.delivered(member.coder.last(), member.memory(), member.coder.context);
    return sum;
  }

  std::vector<Member> members;

 private:
  /// The first member owns everything.
  std::vector<float> ask(const Feedback& feedback, std::vector<std::vector<float>> gradients) {
    Member& owner = members.front();
    const PartQuery& asking = *owner.coder.codec->part_query();
    const std::size_t count = gradients.front().size();
    for (std::size_t m = 0; m < members.size(); ++m)
      feedback.encode(gradients[m], members[m].memory(), members[m].coder.wires[0].view(),
                      members[m].coder.context);
    asking.begin(count, owner.coder.context);
    for (Member& member : members) asking.add(member.coder.wires[0].view(), count, owner.coder.context);
    Bytes question(asking.question_bytes(count));
    asking.ask(question.view(), count, owner.coder.context);
    std::vector<float> sum(count);
    for (Member& member : members) {
      asking.receive(question.view(), count, member.coder.context);
      feedback.answer(member.memory(), member.coder.wires[1].view(), member.coder.context);
      owner.coder.codec->decode(member.coder.wires[1].view(), sum,
                                &member == &owner ? Into::Assign : Into::Add, owner.coder.context);
    }
    if (owner.coder.codec->encode(1, sum, owner.coder.wires[1].view(), Residual::Keep, owner.coder.context))
      feedback.take_back(sum, owner.errors);
    owner.coder.codec->decode(owner.coder.wires[1].view(), sum, Into::Assign, owner.coder.context);
    return sum;
  }
  void sum_up(std::size_t round) {
    auto sum = as_span<float>(members[0].coder.wires[round].view());
    for (std::size_t m = 1; m < members.size(); ++m) {
      auto other = as_span<float>(members[m].coder.wires[round].view());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    }
    for (std::size_t m = 1; m < members.size(); ++m)
      std::copy(sum.begin(), sum.end(), as_span<float>(members[m].coder.wires[round].view()).begin());
  }
  /// Neighbours at a distance that doubles, into the lower one.
  void merge(std::size_t round) {
    for (std::size_t step = 1; step < members.size(); step *= 2)
      for (std::size_t m = 0; m + step < members.size(); m += 2 * step) {
        Member& into = members[m];
        into.coder.codec->merge(into.coder.wires[round].view(), members[m + step].coder.wires[round].view(),
                                into.errors, into.coder.context);
      }
    for (std::size_t m = 1; m < members.size(); ++m)
      std::memcpy(members[m].coder.wires[round].view().data(), members[0].coder.wires[round].view().data(),
                  members[0].coder.wires[round].view().size());
  }
  plan::CodecPlan plan_;
};

class Conservation : public testing::TestWithParam<CodecRow> {};

TEST_P(Conservation, NothingIsLostOverManySteps) {
  const std::size_t count = 3000;
  for (int size : {1, 2, 3, 4, 8}) {
    Group group(GetParam(), plan_of(GetParam().name), count, size);
    std::vector<double> pushed(count), applied(count);
    double magnitude = 0;
    for (int step = 0; step < 20; ++step) {
      std::vector<std::vector<float>> gradients;
      for (int m = 0; m < size; ++m) {
        gradients.push_back(gradient(count, static_cast<std::uint64_t>(100 * step + m)));
        for (std::size_t i = 0; i < count; ++i) {
          pushed[i] += gradients.back()[i];
          magnitude = std::max(magnitude, std::abs(pushed[i]));
        }
      }
      for (Member& member : group.members) member.coder.context.shared = static_cast<std::uint64_t>(step);
      const std::vector<float> sum = group.exchange(gradients);
      for (std::size_t i = 0; i < count; ++i) applied[i] += sum[i];
    }
    for (std::size_t i = 0; i < count; ++i) {
      double kept = 0;
      for (const Member& member : group.members) kept += member.errors[i];
      ASSERT_NEAR(applied[i] + kept, pushed[i], 1e-4 * magnitude) << size << " members, " << i;
    }
  }
}

TEST_P(Conservation, GradientsThatAreNotFiniteChangeNoMemory) {
  const std::size_t count = 2000;
  Group group(GetParam(), plan_of(GetParam().name), count, 3);
  std::vector<std::vector<float>> gradients(3, gradient(count, 1));
  group.exchange(gradients);
  const std::vector<float> before = group.members[1].errors;
  gradients[1][7] = std::numeric_limits<float>::quiet_NaN();
  for (float value : group.exchange(gradients)) ASSERT_TRUE(std::isnan(value));
  EXPECT_EQ(bits_of(group.members[1].errors), bits_of(before));
  for (const Member& member : group.members)
    for (float value : member.errors) ASSERT_TRUE(std::isfinite(value));
  gradients[1][7] = 1;
  for (float value : group.exchange(gradients)) ASSERT_TRUE(std::isfinite(value));
}

INSTANTIATE_TEST_SUITE_P(Codecs, Conservation, testing::ValuesIn(codec_table().begin(), codec_table().end()),
                         row_name);

/// The authors' algorithm in a map, for numbers of members that are powers of two.
std::map<std::uint32_t, float> gtop_k_of(const std::vector<std::vector<float>>& gradients, std::size_t k) {
  auto largest = [k](std::map<std::uint32_t, float> all) {
    std::vector<std::pair<std::uint32_t, float>> order(all.begin(), all.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return std::abs(a.second) > std::abs(b.second); });
    order.resize(std::min(order.size(), k));
    return std::map<std::uint32_t, float>(order.begin(), order.end());
  };
  std::vector<std::map<std::uint32_t, float>> held;
  for (const auto& gradient : gradients) {
    std::map<std::uint32_t, float> all;
    for (std::uint32_t i = 0; i < gradient.size(); ++i) all[i] = gradient[i];
    held.push_back(largest(all));
  }
  for (std::size_t step = 1; step < held.size(); step *= 2)
    for (std::size_t m = 0; m + step < held.size(); m += 2 * step) {
      for (auto [place, value] : held[m + step]) held[m][place] += value;
      held[m] = largest(held[m]);
    }
  return held.front();
}

TEST(GTopK, ChoosesWhatTheReferenceChooses) {
  for (int size : {2, 4, 8, 3, 5}) {
    const std::size_t count = 4000;
    plan::CodecPlan plan = plan_of("gtop_k");
    plan.options.set("density", 0.01);
    Group group(find_codec("gtop_k"), plan, count, size);
    std::vector<std::vector<float>> gradients;
    for (int m = 0; m < size; ++m) gradients.push_back(whole_numbers(count, static_cast<std::uint64_t>(m)));
    const auto expected = gtop_k_of(gradients, 40);
    const std::vector<float> sum = group.exchange(gradients);
    for (std::uint32_t i = 0; i < count; ++i)
      EXPECT_EQ(sum[i], expected.contains(i) ? expected.at(i) : 0.0F) << size << " members, " << i;
  }
}

TEST(MomentumCorrection, WithEverythingSentAndNoMaskIsMomentumSgd) {
  const std::size_t count = 500;
  plan::CodecPlan plan = plan_of("top_k");
  plan.options.set("density", 1);
  plan.momentum = 0.9;
  for (bool masking : {false, true}) {
    plan.masking = masking;
    Group group(find_codec("top_k"), plan, count, 2);
    std::vector<double> velocity(count);
    for (int step = 0; step < 10; ++step) {
      std::vector<std::vector<float>> gradients = {gradient(count, 2 * static_cast<std::uint64_t>(step)),
                                                   gradient(count, 2 * static_cast<std::uint64_t>(step) + 1)};
      const std::vector<float> sum = group.exchange(gradients);
      for (std::size_t i = 0; i < count; ++i) {
        // With the mask velocities are cleared in every step: plain SGD.
        velocity[i] = (masking ? 0 : 0.9 * velocity[i]) + gradients[0][i] + gradients[1][i];
        ASSERT_NEAR(sum[i], velocity[i], 1e-4 * (1 + std::abs(velocity[i]))) << step;
      }
    }
  }
}

TEST(GlobalSketch, AppliesExactValuesOfWhatIsLargest) {
  const std::size_t count = 20000;
  plan::CodecPlan plan = plan_of("count_sketch");
  plan.options.set("density", 0.005);
  Group group(find_codec("count_sketch"), plan, count, 4);
  std::vector<std::vector<float>> gradients(4, std::vector<float>(count));
  for (std::size_t m = 0; m < 4; ++m) {
    gradients[m] = whole_numbers(count, m);
    for (std::size_t i = 0; i < 60; ++i) gradients[m][i * 313] = 1e5F + static_cast<float>(i);
  }
  const std::vector<float> sum = group.exchange(gradients);
  EXPECT_EQ(std::count_if(sum.begin(), sum.end(), [](float value) { return value != 0; }), 100);
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(sum[i * 313], 4e5F + 4 * static_cast<float>(i));
  for (std::size_t i = 0; i < count; ++i)
    EXPECT_TRUE(sum[i] == 0 ||
                sum[i] == gradients[0][i] + gradients[1][i] + gradients[2][i] + gradients[3][i]);
}

}  // namespace
}  // namespace taxon::codec::test
