#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "launch/control_groups.h"

namespace taxon::launch {

/// Files as the kernel shows them of control groups.
class GroupFiles : public testing::Test {
 protected:
  GroupFiles() {
    std::string folder = testing::TempDir() + "control_groups_XXXXXX";
    root_ = mkdtemp(folder.data());
  }
  ~GroupFiles() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  ControlGroups groups() const { return {root_ / "membership", root_}; }
  std::filesystem::path root_;
};

}  // namespace taxon::launch
