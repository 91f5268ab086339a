#include "train/checkpoint_file.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace ropewalk {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";
const std::string kFormat = "ropewalk-checkpoint";
const std::string kFormatVersion = "1";

std::optional<int64_t> parse_step(std::string_view text) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0) return std::nullopt;
  return step;
}

/// Steps and paths of the files that are called like checkpoints, newest first.
std::vector<std::pair<int64_t, std::string>> list_checkpoints(const std::string& directory) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) || name.size() <= kPrefix.size() + kSuffix.size()) {
      continue;
    }
    const auto digits = std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
    if (const auto step = parse_step(digits)) found.emplace_back(*step, at->path().string());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

}  // namespace

std::string checkpoint_path(const std::string& directory, int64_t step) {
  const std::string digits = std::to_string(step);
  std::string path = directory + "/";
  path.append(kPrefix).append(12 - std::min<std::size_t>(digits.size(), 12), '0').append(digits).append(kSuffix);
  return path;
}

void write_checkpoint(const std::string& directory, int64_t step, const std::vector<TensorToSave>& tensors,
                      const std::map<std::string, std::string>& metadata, int64_t keep) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw CheckpointError("'" + directory + "': cannot be made (" + error.message() + ")");
  auto all = metadata;
  all["format"] = kFormat;
  all["format_version"] = kFormatVersion;
  all["step"] = std::to_string(step);
  write_safetensors(checkpoint_path(directory, step), tensors, all);

  const auto kept = static_cast<std::size_t>(std::max<int64_t>(keep, 1));
  const auto found = list_checkpoints(directory);
  for (std::size_t i = kept; i < found.size(); ++i) {
    // The one just written stays, even if a resumed run finds files of later steps.
    if (found[i].first != step) fs::remove(found[i].second, error);
  }
}

Checkpoint read_checkpoint(const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.file = read_safetensors(path);
  const auto& metadata = checkpoint.file.metadata();
  const auto value = [&](const char* key) {
    const auto at = metadata.find(key);
    return at == metadata.end() ? std::string() : at->second;
  };
  if (value("format") != kFormat) throw CheckpointError("'" + path + "': is not a checkpoint of Ropewalk");
  if (value("format_version") != kFormatVersion) {
    throw CheckpointError("'" + path + "': has checkpoint version '" + value("format_version") +
                          "', this program reads version " + kFormatVersion);
  }
  if (value("checksum").empty()) throw CheckpointError("'" + path + "': has no checksum; the file is damaged");
  const auto step = parse_step(value("step"));
  if (!step) throw CheckpointError("'" + path + "': has no valid step");
  checkpoint.step = *step;
  return checkpoint;
}

LatestCheckpoint latest_checkpoint(const std::string& directory) {
  LatestCheckpoint latest;
  for (const auto& [step, path] : list_checkpoints(directory)) {
    try {
      latest.checkpoint = read_checkpoint(path);
      return latest;
    } catch (const CheckpointError& error) {
      latest.warnings.push_back(std::string("checkpoint passed over: ") + error.what());
    }
  }
  return latest;
}

}  // namespace ropewalk
