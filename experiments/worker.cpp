#include "experiments/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

namespace ropewalk {
namespace {

constexpr std::array<int, 3> kWatched = {SIGINT, SIGTERM, SIGCHLD};

std::array<int, 2> pipe_ends = {-1, -1};
std::array<struct sigaction, 3> handlers_before = {};

void on_signal(int number) {
  const int before = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = write(pipe_ends[1], &byte, 1);  // a full pipe wakes the loop as well
  errno = before;
}

/// What happens between fork and exec may only call what is safe in a signal handler.
[[noreturn]] void become(const char* executable, char* const* arguments, int output, int input, int core,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  if (core >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(core), &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0) {
    execv(executable, arguments);
  }
  constexpr std::string_view kMessage = "error: the worker's program cannot be started\n";
  [[maybe_unused]] const ssize_t written = write(output, kMessage.data(), kMessage.size());
  _exit(127);
}

int open_or_throw(const char* path, int flags) {
  const int fd = open(path, flags | O_CLOEXEC, 0666);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), fmt::format("cannot open '{}'", path));
  return fd;
}

}  // namespace

pid_t start_worker(const WorkerCommand& command) {
  std::vector<std::string> words = {"ropewalk"};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int output = open_or_throw(command.output_file.c_str(), O_WRONLY | O_CREAT | O_APPEND);
  int input = -1;
  try {
    input = open_or_throw("/dev/null", O_RDONLY);
  } catch (...) {
    close(output);
    throw;
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  const int problem = errno;
  if (pid == 0) become(command.executable.c_str(), arguments.data(), output, input, command.core, parent);
  close(output);
  close(input);
  if (pid < 0) throw std::system_error(problem, std::generic_category(), "cannot start a worker process");
  setpgid(pid, pid);  // also here, so that a signal right now finds the group
  return pid;
}

std::string end_text(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    return fmt::format("killed by signal {} ({})", number, strsignal(number));
  }
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

SignalWatch::SignalWatch() {
  if (pipe2(pipe_ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
  }
  for (std::size_t i = 0; i < kWatched.size(); ++i) {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    sigaction(kWatched[i], &action, &handlers_before[i]);
  }
}

SignalWatch::~SignalWatch() {
  for (std::size_t i = 0; i < kWatched.size(); ++i) sigaction(kWatched[i], &handlers_before[i], nullptr);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  pipe_ends = {-1, -1};
}

void SignalWatch::wait(int milliseconds) {
  pollfd ready = {pipe_ends[0], POLLIN, 0};
  poll(&ready, 1, milliseconds);
  std::array<unsigned char, 64> numbers = {};
  ssize_t count = 0;
  while ((count = read(pipe_ends[0], numbers.data(), numbers.size())) > 0) {
    for (ssize_t i = 0; i < count; ++i) {
      const int number = numbers[static_cast<std::size_t>(i)];
      if (number == SIGCHLD) continue;
      ++interrupts_;
      if (signal_ == 0) signal_ = number;
    }
  }
}

int SignalWatch::take_interrupts() {
  return std::exchange(interrupts_, 0);
}

}  // namespace ropewalk
