#include "data/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/data/support.h"

namespace ropewalk {
namespace {

TEST_F(DataFiles, GlobMatchesInTheByteOrderOfNames) {
  for (const char* name : {"b.txt", "a10.txt", "B.txt", "a2.txt", "other.bin"}) write(name, "x");
  EXPECT_EQ(find_files(path("*.txt")),
            (std::vector<std::string>{path("B.txt"), path("a10.txt"), path("a2.txt"), path("b.txt")}));
}

TEST_F(DataFiles, ANameWithBracketsIsANameWhereTheFileExists) {
  write("[1].txt", "x");
  write("1.txt", "y");
  EXPECT_EQ(find_files(path("[1].txt")), (std::vector<std::string>{path("[1].txt")}));
}

TEST_F(DataFiles, MissingFileGlobWithoutMatchAndEmptyPathAreNamed) {
  EXPECT_TRUE(contains(data_error([&] { find_files(path("none.txt")); }), {path("none.txt"), "No such file"}));
  EXPECT_TRUE(contains(data_error([&] { find_files(path("*.txt")); }), {path("*.txt"), "no file matches"}));
  EXPECT_TRUE(contains(data_error([] { find_files(""); }), {"data.path is empty"}));
  EXPECT_TRUE(contains(data_error([] { find_files(std::string("a\0b", 3)); }), {"zero byte"}));
  EXPECT_TRUE(contains(data_error([&] { read_file(path("none.txt")); }), {path("none.txt"), "No such file"}));
}

TEST_F(DataFiles, ReadsEveryByte) {
  const std::string content("\0\xFF\n\r\n text", 10);
  EXPECT_EQ(read_file(write("all.bin", content)), content);
}

TEST_F(DataFiles, RefusesWhatIsNoFileWithContent) {
  EXPECT_TRUE(contains(data_error([&] { read_file(write("empty", "")); }), {path("empty"), "is empty"}));
  ASSERT_EQ(mkdir(path("folder").c_str(), 0755), 0);
  EXPECT_TRUE(contains(data_error([&] { read_file(path("folder")); }), {path("folder"), "is a directory"}));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0644), 0);
  EXPECT_TRUE(contains(data_error([&] { read_file(path("pipe")); }), {path("pipe"), "not a regular file"}));
  EXPECT_TRUE(contains(data_error([] { read_file("/dev/zero"); }), {"/dev/zero", "not a regular file"}));
}

TEST_F(DataFiles, RefusesAFileWithoutPermission) {
  const std::string file = write("secret", "x");
  ASSERT_EQ(chmod(file.c_str(), 0), 0);
  const uid_t user = geteuid();
  if (user == 0) {
    ASSERT_EQ(seteuid(65534), 0);  // root reads everything
  }
  const std::string message = data_error([&] { read_file(file); });
  ASSERT_EQ(seteuid(user), 0);
  EXPECT_TRUE(contains(message, {file, "Permission denied"}));
}

}  // namespace
}  // namespace ropewalk
