#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/train/storage_testing.h"

namespace ropewalk::testing_support {

/// What a finished `ropewalk` left.
struct Finished {
  int code = -1;  ///< exit code; 128 + signal if one ended it
  std::string out, err;
};

/// A running `ropewalk`, in a directory of the caller's; its output goes to files in there.
class Binary {
 public:
  Binary(const std::string& directory, std::vector<std::string> words) : directory_(directory) {
    words.insert(words.begin(), ROPEWALK_BINARY);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("cannot fork");
    if (pid_ > 0) return;
    if (chdir(directory.c_str()) == 0 && redirect("out.txt", 1) && redirect("err.txt", 2)) {
      execv(ROPEWALK_BINARY, arguments.data());
    }
    _exit(127);
  }
  ~Binary() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  Binary(const Binary&) = delete;
  Binary& operator=(const Binary&) = delete;

  pid_t pid() const { return pid_; }

  Finished wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, read_text(directory_ + "/out.txt"), read_text(directory_ + "/err.txt")};
  }

 private:
  static bool redirect(const char* file, int target) {
    const int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    return fd >= 0 && dup2(fd, target) == target;
  }

  std::string directory_;
  pid_t pid_;
};

inline Finished run_binary(const std::string& directory, std::vector<std::string> words) {
  return Binary(directory, std::move(words)).wait();
}

}  // namespace ropewalk::testing_support
