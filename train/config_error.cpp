#include "train/config_error.h"

#include <fmt/format.h>

namespace ropewalk {
namespace {

constexpr std::size_t kShownMessages = 100;

std::string all_lines(const std::vector<std::string>& messages) {
  std::string text;
  for (std::size_t i = 0; i < messages.size() && i < kShownMessages; ++i) text += messages[i] + "\n";
  if (messages.size() > kShownMessages) text += fmt::format("... and {} more\n", messages.size() - kShownMessages);
  return text + fmt::format("{} error{}; nothing was started", messages.size(), messages.size() == 1 ? "" : "s");
}

}  // namespace

ConfigError::ConfigError(std::vector<std::string> messages)
    : std::runtime_error(all_lines(messages)), messages_(std::move(messages)) {}

}  // namespace ropewalk
