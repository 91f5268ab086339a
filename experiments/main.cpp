#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "experiments/command_line.h"

namespace {

/// A standard descriptor that the caller closed would be given to the next file that is opened, and messages would go
/// into a log.
void open_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) == -1) open("/dev/null", O_RDWR);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  return ropewalk::run_command_line(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
