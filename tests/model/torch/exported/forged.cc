#include "model/torch/exported/forged.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "model/torch/exported/archive.h"
#include "model/torch/exported/networks.h"

namespace taxon::model::exported {

Forged::Forged(const std::string& network)
    : folder_(std::filesystem::path(::testing::TempDir()) /
              ("taxon_exported_" + std::to_string(::getpid()) +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
  std::filesystem::create_directories(folder_);
  const Archive archive(path_of(network + ".pt2"));
  for (const std::string& name : archive.names("")) members_[name] = archive.text(name);
}

Forged::~Forged() { std::filesystem::remove_all(folder_); }

void Forged::replace(const std::string& member, const std::string& old_text, const std::string& new_text) {
  std::string& text = members_.at(member);
  std::size_t found = text.find(old_text);
  EXPECT_NE(found, std::string::npos) << old_text;
  for (; found != std::string::npos; found = text.find(old_text, found + new_text.size()))
    text.replace(found, old_text.size(), new_text);
}

Forged& Forged::graph(const std::string& old_text, const std::string& new_text) {
  replace("models/model.json", old_text, new_text);
  return *this;
}
Forged& Forged::weights(const std::string& old_text, const std::string& new_text) {
  replace("data/weights/model_weights_config.json", old_text, new_text);
  return *this;
}
Forged& Forged::remove(const std::string& member) {
  EXPECT_EQ(members_.erase(member), 1U) << member;
  return *this;
}
Forged& Forged::member(const std::string& name, const std::string& contents) {
  members_[name] = contents;
  return *this;
}

std::string Forged::save(Packing packing) const {
  const std::string path = (folder_ / "forged.pt2").string();
  archive* zip = archive_write_new();
  archive_write_set_format_zip(zip);
  archive_write_set_options(zip,
                            packing == Packing::Stored ? "zip:compression=store" : "zip:compression=deflate");
  EXPECT_EQ(archive_write_open_filename(zip, path.c_str()), ARCHIVE_OK);
  for (const auto& [name, contents] : members_) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, ("forged/" + name).c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(contents.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    EXPECT_EQ(archive_write_header(zip, entry), ARCHIVE_OK);
    archive_write_data(zip, contents.data(), contents.size());
    archive_entry_free(entry);
  }
  archive_write_free(zip);
  return path;
}

std::string Forged::save_bytes(const std::string& bytes) const {
  const std::string path = (folder_ / "forged.pt2").string();
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace taxon::model::exported
