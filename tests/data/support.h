#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/error.h"

namespace ropewalk {

/// A directory of its own for each test, gone when it ends.
class DataFiles : public testing::Test {
 protected:
  DataFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ropewalk-data-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
    directory_ = pattern;
  }
  ~DataFiles() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path directory_;
};

/// The message of the DataError that `action` throws; empty if it throws none.
template <class Action>
std::string data_error(Action action) {
  try {
    action();
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

inline testing::AssertionResult contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      return testing::AssertionFailure() << "'" << part << "' is not in '" << text << "'";
    }
  }
  return testing::AssertionSuccess();
}

/// Little-endian integers of `width` bytes.
inline std::string pack(const std::vector<uint32_t>& values, int width) {
  std::string bytes;
  for (const uint32_t value : values) {
    for (int i = 0; i < width; ++i) bytes.push_back(static_cast<char>(value >> 8 * i & 0xFF));
  }
  return bytes;
}

/// A file as llm.c writes it; `count` is what the header says.
inline std::string llm_c_file(uint32_t magic, uint32_t version, uint32_t count, const std::vector<uint32_t>& ids,
                              int width) {
  std::vector<uint32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return pack(header, 4) + pack(ids, width);
}

}  // namespace ropewalk
