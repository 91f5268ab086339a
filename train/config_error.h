#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace ropewalk {

/// Everything that is wrong with a configuration, in one exception. what() is one message a line
/// ("run.ini:3: error: ...") and a last line that counts them; the command exits with 2.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<std::string> messages);

  /// One line each, without the closing count.
  const std::vector<std::string>& messages() const { return messages_; }

 private:
  std::vector<std::string> messages_;
};

}  // namespace ropewalk
