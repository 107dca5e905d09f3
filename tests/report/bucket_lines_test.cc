#include "report/bucket_lines.h"

#include <gmock/gmock.h>

namespace taxon::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

plan::ResolvedPlan plan_of(int buckets, int parameters, int world_size = 4) {
  plan::ResolvedPlan resolved;
  resolved.world_size = world_size;
  for (int b = 0; b < buckets; ++b) {
    plan::BucketPlan bucket;
    bucket.bytes = 2 << 20;
    bucket.collectives = {"ring"};
    for (int p = 0; p < parameters; ++p) bucket.parameters.push_back("layer" + std::to_string(p) + ".weight");
    resolved.buckets.push_back(bucket);
  }
  return resolved;
}

TEST(BucketLines, FewBucketsAreToldOneByOne) {
  EXPECT_THAT(bucket_lines(plan_of(2, 1), Detail::Screen),
              ElementsAre("bucket 0: 2.0 MiB of layer0.weight by ring",
                          "bucket 1: 2.0 MiB of layer0.weight by ring"));
}

TEST(BucketLines, ManyFitAScreen) {
  plan::ResolvedPlan resolved = plan_of(60, 90);
  resolved.buckets[5].collectives = {"tree", "ring"};
  for (auto& bucket : resolved.buckets) bucket.reasons = {std::string(300, 'x')};
  const auto lines = bucket_lines(resolved, Detail::Screen);
  EXPECT_THAT(lines, SizeIs(7));
  EXPECT_THAT(lines[0], HasSubstr("layer0.weight, layer1.weight and 88 more by ring"));
  EXPECT_EQ(lines.back(), "and 57 more buckets: 114.0 MiB by ring (56); tree, ring (1) (--verbose: all)");
  for (const std::string& line : lines) EXPECT_LE(line.size(), 103u) << line;  // the ellipsis has three bytes
}

TEST(BucketLines, AllOfThemWithAllTheyHold) {
  plan::ResolvedPlan resolved = plan_of(60, 90);
  resolved.buckets[1].reasons = {"a reason"};
  const auto lines = bucket_lines(resolved, Detail::All);
  EXPECT_THAT(lines, SizeIs(61));
  EXPECT_EQ(lines[2], "bucket 1: a reason");
  EXPECT_THAT(lines[0], HasSubstr("layer89.weight by ring"));
}

TEST(BucketLines, CodecsHaveWaysOfTheirOwn) {
  plan::ResolvedPlan resolved = plan_of(9, 1);
  for (auto& bucket : resolved.buckets) bucket.collectives.clear();
  const auto lines = bucket_lines(resolved, Detail::Screen);
  EXPECT_EQ(lines.front(), "bucket 0: 2.0 MiB of layer0.weight by its codec");
  EXPECT_EQ(lines.back(), "and 6 more buckets: 12.0 MiB by its codec (--verbose: all)");
}

TEST(BucketLines, OneWorkerSendsNothing) {
  EXPECT_THAT(bucket_lines(plan_of(3, 1, 1), Detail::All), IsEmpty());
}

}  // namespace
}  // namespace taxon::report
