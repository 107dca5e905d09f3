#include "planner/machine.h"

#include <gmock/gmock.h>

#include <sstream>

#include "launch/interfaces.h"

namespace taxon::planner {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Doctor, LooksAtEverythingThatTrainingDependsOn) {
  auto findings = examine_machine();
  for (const char* subject : {"cores", "load", "memory", "BLAS", "UCX", "tensors", "grpc", "/dev/shm",
                              "huge pages", "memlock", "open files", "clock", "interface"})
    EXPECT_THAT(findings, Contains(Field(&Finding::subject, StartsWith(subject))));
  for (const Finding& finding : findings) {
    EXPECT_NE(finding.value, "") << finding.subject;
    EXPECT_EQ(finding.advice.empty(), finding.verdict == Verdict::Good) << finding.subject;
  }
}

TEST(Doctor, PrintsAdviceBelowWhatIsNotGood) {
  std::ostringstream out;
  print_findings({{"cores", "8", Verdict::Good, ""}, {"BLAS", "none", Verdict::Missing, "install OpenBLAS"}},
                 out);
  EXPECT_THAT(out.str(), HasSubstr("good     cores            8\n"));
  EXPECT_THAT(out.str(), HasSubstr("missing  BLAS             none\n      -> install OpenBLAS\n"));
}

TEST(Doctor, FindsTheLoopbackInterface) {
  EXPECT_THAT(launch::network_interfaces(),
              Contains(testing::AllOf(Field(&launch::Interface::loopback, true),
                                      Field(&launch::Interface::addresses, Contains("127.0.0.1")))));
}

}  // namespace
}  // namespace taxon::planner
