#include "train/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "train/durable_file.h"
#include "train/machine.h"

namespace ropewalk {
namespace {

std::string text_of(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

EventLog::EventLog(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "cannot open '" + path + "'");
  const off_t size = lseek(fd_, 0, SEEK_END);
  char last = '\n';
  if (size > 0 && pread(fd_, &last, 1, size - 1) == 1 && last != '\n' && ::write(fd_, "\n", 1) != 1) {
    const int error = errno;
    ::close(fd_);
    throw std::system_error(error, std::generic_category(), "cannot write '" + path + "'");
  }
}

EventLog::EventLog(EventLog&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

EventLog::~EventLog() {
  if (fd_ >= 0) ::close(fd_);
}

bool EventLog::append(const std::string& kind, int64_t step, const nlohmann::json& fields) {
  nlohmann::json event = fields.is_object() ? fields : nlohmann::json::object();
  event["time"] = utc_now();
  event["kind"] = kind;
  event["step"] = step;
  const std::string line = text_of(event, -1);
  ssize_t written = -1;
  do {
    written = ::write(fd_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  return written == static_cast<ssize_t>(line.size());
}

bool EventLog::append(const std::string& kind, int64_t step) {
  return append(kind, step, nlohmann::json::object());
}

std::vector<nlohmann::json> read_events(const std::string& path, std::size_t* bad_lines) {
  std::ifstream file(path);
  if (!file) throw std::system_error(errno, std::generic_category(), "cannot read '" + path + "'");
  std::vector<nlohmann::json> events;
  std::size_t bad = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object()) {
      events.push_back(std::move(event));
    } else {
      ++bad;
    }
  }
  if (bad_lines != nullptr) *bad_lines = bad;
  return events;
}

void write_summary(const std::string& path, const nlohmann::json& summary) {
  write_file_durably(path, text_of(summary, 2));
}

}  // namespace ropewalk
