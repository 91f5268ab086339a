#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace ropewalk::testing {
namespace {

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), n);
  pclose(pipe);
  return out;
}

TEST(DocumentationTest, TheKeyReferenceIsWhatTheProgramReads) {
  std::ifstream file(std::string(ROPEWALK_SOURCE_DIR) + "/docs/configuration.md");
  std::stringstream text;
  text << file.rdbuf();
  ASSERT_FALSE(text.str().empty());
  EXPECT_EQ(text.str(), output_of(std::string(ROPEWALK_BINARY) + " config --markdown"))
      << "write it anew: ropewalk config --markdown > docs/configuration.md";
}

}  // namespace
}  // namespace ropewalk::testing
