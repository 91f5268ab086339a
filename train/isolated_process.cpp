#include "train/isolated_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace ropewalk {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

void limit_resource(decltype(RLIMIT_AS) resource, uint64_t value) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(value, limit.rlim_max);
  setrlimit(resource, &limit);
}

uint64_t mapped_bytes() {
  uint64_t pages = 0;
  if (FILE* statm = std::fopen("/proc/self/statm", "re")) {
    unsigned long long read = 0;
    if (std::fscanf(statm, "%llu", &read) == 1) pages = read;
    std::fclose(statm);
  }
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void child(const ChildLimits& limits, int fd, const std::function<void(ByteWriter&)>& produce) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU, SIGPIPE}) {
    std::signal(signal_number, SIG_DFL);
  }
  limit_resource(RLIMIT_CORE, 0);
  limit_resource(RLIMIT_CPU, limits.cpu_seconds);
  if (const uint64_t mapped = mapped_bytes(); mapped > 0 && !kSanitized) {
    limit_resource(RLIMIT_AS, mapped + limits.memory_bytes);
  }
  if (const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC); null >= 0) dup2(null, STDERR_FILENO);
  try {
    ByteWriter writer(fd);
    produce(writer);
    writer.flush();
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return "the process that did it was ended by signal " + std::to_string(number) + " (" + strsignal(number) + ")";
  }
  return "the process that did it ended early";
}

}  // namespace

void ByteWriter::bytes(const void* data, std::size_t count) {
  const char* next = static_cast<const char*>(data);
  while (count > 0) {
    const std::size_t part = std::min(count, kBuffer - buffer_.size());
    buffer_.insert(buffer_.end(), next, next + part);
    next += part;
    count -= part;
    if (buffer_.size() == kBuffer) flush();
  }
}

void ByteWriter::flush() {
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t written = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw ChildError("the reader of this process has gone");
    done += static_cast<std::size_t>(written);
  }
  buffer_.clear();
}

void ByteReader::bytes(void* data, std::size_t count) {
  char* next = static_cast<char*>(data);
  while (count > 0) {
    if (begin_ == end_) {
      pollfd waiting = {fd_, POLLIN, 0};
      const int ready = poll(&waiting, 1, static_cast<int>(silence_seconds_) * 1000);
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) throw ChildError("nothing came for " + std::to_string(silence_seconds_) + " s");
      const ssize_t got = ::read(fd_, buffer_.data(), buffer_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw ChildError("");
      begin_ = 0;
      end_ = static_cast<std::size_t>(got);
    }
    const std::size_t part = std::min(count, end_ - begin_);
    std::memcpy(next, buffer_.data() + begin_, part);
    next += part;
    begin_ += part;
    count -= part;
  }
}

void in_child_process(const ChildLimits& limits, const std::function<void(ByteWriter&)>& produce,
                      const std::function<void(ByteReader&)>& consume) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw ChildError(std::string("no pipe: ") + std::strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    throw ChildError(std::string("no process: ") + std::strerror(error));
  }
  if (pid == 0) {
    ::close(ends[0]);
    child(limits, ends[1], produce);
  }
  ::close(ends[1]);
  int status = 0;
  const auto end_child = [&](bool kill_it) {
    ::close(ends[0]);
    if (kill_it) kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  };
  try {
    ByteReader reader(ends[0], limits.silence_seconds);
    consume(reader);
  } catch (const ChildError& error) {
    const bool hung = *error.what() != '\0';
    end_child(hung);
    throw ChildError(hung ? error.what() : describe_end(status));
  } catch (...) {
    end_child(true);
    throw;
  }
  end_child(true);
}

}  // namespace ropewalk
