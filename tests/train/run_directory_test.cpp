#include "train/run_directory.h"

#include <cctype>
#include <optional>
#include <set>

#include "storage_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

TEST(RunId, IsTheLastPartOfTheDirectory) {
  EXPECT_EQ(run_id_of("runs/tiny/a1"), "a1");
  EXPECT_EQ(run_id_of("out/"), "out");
  EXPECT_EQ(run_id_of("out//"), "out");
  EXPECT_EQ(run_id_of("./runs/../out/."), "out");
  const std::string here = std::filesystem::current_path().filename().string();
  EXPECT_EQ(run_id_of("."), here);
  EXPECT_EQ(run_id_of("./"), here);
}

TEST(RunDirectory, EachRunGetsANewDirectoryNamedByTime) {
  const TemporaryDirectory dir;
  std::set<std::string> made;
  for (int i = 0; i < 20; ++i) made.insert(create_run_directory(dir / "runs", "demo"));
  EXPECT_EQ(made.size(), 20U);
  for (const std::string& path : made) {
    // Digits and letters as placeholders: the name is of this form.
    std::string form = path.substr((dir / "runs/demo/").size());
    for (std::size_t i = 0; i < form.size(); ++i) {
      if (i < 16 ? std::isdigit(form[i]) != 0 : std::isxdigit(form[i]) != 0) form[i] = i < 16 ? '0' : 'x';
    }
    EXPECT_EQ(form, "00000000T000000-xxxxxx") << path;
    EXPECT_TRUE(std::filesystem::is_empty(path));
  }
}

TEST(RunDirectory, NamesThatLeaveTheRootAreRefused) {
  const TemporaryDirectory dir;
  for (const char* name : {"", ".", "..", "a/b", "/etc"}) {
    EXPECT_THROW(create_run_directory(dir.path(), name), RunDirectoryError) << name;
  }
}

TEST(RunDirectory, AGivenDirectoryMustBeNewOrEmpty) {
  const TemporaryDirectory dir;
  use_run_directory(dir / "a/b");
  EXPECT_TRUE(std::filesystem::is_directory(dir / "a/b"));
  EXPECT_NO_THROW(use_run_directory(dir / "a/b"));
  { const RunLock lock(dir / "a/b"); }
  EXPECT_NO_THROW(use_run_directory(dir / "a/b"));  // a lock file alone is nobody's run
  write_text(dir / "a/b/log.h5", "x");
  EXPECT_NE(message_of<RunDirectoryError>([&] { use_run_directory(dir / "a/b"); }).find("not empty"),
            std::string::npos);
  EXPECT_NE(message_of<RunDirectoryError>([&] { use_run_directory(dir / "a/b/log.h5"); }).find("not a directory"),
            std::string::npos);
}

TEST(RunDirectory, AParentThatCannotBeWrittenIsNamed) {
  const TemporaryDirectory dir;
  write_text(dir / "file", "x");
  for (const auto& make : std::vector<std::function<void()>>{[&] { create_run_directory(dir / "file", "demo"); },
                                                             [&] { use_run_directory(dir / "file/run"); },
                                                             [&] { const RunLock lock(dir / "none"); }}) {
    const std::string message = message_of<RunDirectoryError>(make);
    EXPECT_NE(message.find(dir.path()), std::string::npos) << message;
  }
}

TEST(RunLock, IsExclusiveAndEndsWithItsHolder) {
  const TemporaryDirectory dir;
  EXPECT_FALSE(run_is_locked(dir.path()));
  {
    const RunLock lock(dir.path());
    EXPECT_TRUE(run_is_locked(dir.path()));
    const int status = in_fork([&] {
      try {
        const RunLock second(dir.path());
      } catch (const RunDirectoryError&) {
        return 0;
      }
      return 1;
    });
    EXPECT_EQ(status, 0);
    EXPECT_THROW(RunLock(dir.path()), RunDirectoryError);
  }
  EXPECT_FALSE(run_is_locked(dir.path()));
  EXPECT_NO_THROW(RunLock(dir.path()));
}

TEST(RunLock, AForkedCopyNeitherKeepsNorEndsIt) {
  const TemporaryDirectory dir;
  std::optional<RunLock> lock(dir.path());
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    lock.reset();
    char byte = 0;
    _exit(read(hold[0], &byte, 1) == 1 ? 0 : 1);
  }
  usleep(20000);
  EXPECT_TRUE(run_is_locked(dir.path()));
  lock.reset();
  EXPECT_FALSE(run_is_locked(dir.path()));
  EXPECT_EQ(write(hold[1], "x", 1), 1);
  waitpid(pid, nullptr, 0);
  close(hold[0]);
  close(hold[1]);
}

}  // namespace
}  // namespace ropewalk
