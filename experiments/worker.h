#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ropewalk {

struct WorkerCommand {
  std::string executable;
  std::vector<std::string> arguments;  ///< without the program's name
  std::string output_file;             ///< standard output and error are appended to it
  int core = -1;                       ///< the only core it may use; -1: any
};

/// Starts a process that has a process group of its own, so that an interrupt at the terminal reaches it through
/// its parent only, and that gets SIGTERM when its parent dies. Throws std::system_error.
pid_t start_worker(const WorkerCommand& command);

/// "killed by signal 9 (Killed)", "exit code 1"; for a status of waitpid.
std::string end_text(int wait_status);

/// Collects signals for a loop that waits for workers: SIGINT, SIGTERM and SIGCHLD while it lives, then the handlers
/// from before are back. One at a time.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Sleeps until a signal comes or the time is over.
  void wait(int milliseconds);
  /// SIGINTs and SIGTERMs that came since the last call.
  int take_interrupts();
  /// The first SIGINT or SIGTERM; 0 if none came.
  int signal() const { return signal_; }

 private:
  int interrupts_ = 0;
  int signal_ = 0;
};

}  // namespace ropewalk
