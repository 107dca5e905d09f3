// The pictures of the rows' comments are what comes out.
#include <gmock/gmock.h>

#include <fstream>

#include "program/schedule.h"
#include "program/timeline.h"

namespace taxon::program {
namespace {

struct Picture {
  std::string_view row, file;
  Shape shape;
};
class Pictures : public ::testing::TestWithParam<Picture> {};

/// The lines of a comment that begin with "rank", as draw() has them.
std::string picture_in(const std::string& path) {
  std::ifstream file(path);
  std::string line, text;
  constexpr std::string_view kBegin = "///     rank ";
  while (std::getline(file, line))
    if (line.starts_with(kBegin)) text += line.substr(kBegin.size() - 5) + "\n";
  return text;
}

TEST_P(Pictures, StandInTheComment) {
  const Picture& picture = GetParam();
  const Program program = make_program(find_schedule(picture.row), picture.shape);
  const std::string path = std::string(TAXON_SOURCE_DIR) + "/src/program/rows/" + std::string(picture.file);
  EXPECT_EQ(picture_in(path), draw(program));
}

INSTANTIATE_TEST_SUITE_P(Schedules, Pictures,
                         ::testing::Values(Picture{"data_parallel", "data_parallel.cc", {1, 3}},
                                           Picture{"gpipe", "gpipe.cc", {4, 4}},
                                           Picture{"1f1b", "one_f_one_b.cc", {4, 6}},
                                           Picture{"interleaved", "interleaved.cc", {4, 2}},
                                           Picture{"zb_h1", "zb_h1.cc", {4, 6}}),
                         [](const auto& info) { return std::string(info.param.row); });

TEST(Draw, MarksWaitingWorkAndGoingOn) {
  const Program program = make_program(find_schedule("gpipe"), {2, 2});
  EXPECT_EQ(draw(program),
            "rank 0  F0 F1 .  .  .  B0 -- B1 --\n"
            "rank 1  .  F0 F1 B0 -- B1 -- .  .\n");
}

}  // namespace
}  // namespace taxon::program
