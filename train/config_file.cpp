#include "train/config_file.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "data/utf8.h"
#include "train/text.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = std::size_t{1} << 20;
constexpr int kMostIncludes = 100;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}
bool starts_comment(char c) {
  return c == '#' || c == ';';
}

/// Cuts a comment off, and the blanks around what is left.
std::string_view without_comment(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (starts_comment(text[i]) && (i == 0 || is_blank(text[i - 1]))) return trimmed(text.substr(0, i));
  }
  return trimmed(text);
}

/// What keeps `text` from being text, "" where nothing does.
std::string not_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool white = c == '\t' || c == '\n' || c == '\r';
    const std::size_t length = decode_utf8(text, i).size;
    if (length == 0 || c == 0x7F || (c < 0x20 && !white)) {
      return fmt::format("byte 0x{:02x} at offset {} is not UTF-8 text", c, i);
    }
    i += length;
  }
  return "";
}

struct Value {
  std::string text;
  std::string error = {};
};

Value read_value(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || text.front() != '"') return {std::string(without_comment(text))};
  std::string value;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] == '\\' && (next == '"' || next == '\\')) {
      value += next;
      ++i;
    } else if (text[i] == '"') {
      const std::string_view rest = text.substr(i + 1);
      if (without_comment(rest).empty() && (rest.empty() || is_blank(rest[0]))) return {value};
      return {"", fmt::format("'{}' follows the closing quote", printable(rest))};
    } else {
      value += text[i];
    }
  }
  return {"", "a quote is not closed"};
}

/// The bytes of a file, or why there are none.
std::optional<std::string> file_bytes(const fs::path& path, std::string& problem) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (status.type() == fs::file_type::not_found) {
    problem = "no such file";
  } else if (fs::is_directory(status)) {
    problem = "is a directory, not a configuration file";
  } else if (std::ifstream stream(path, std::ios::binary); !stream) {
    problem = "cannot be opened for reading";
  } else {
    std::string bytes;
    std::array<char, 16384> block;
    while (bytes.size() <= kLargestFile && (stream.read(block.data(), block.size()) || stream.gcount() > 0)) {
      bytes.append(block.data(), static_cast<std::size_t>(stream.gcount()));
    }
    if (stream.bad()) {
      problem = "cannot be read";
    } else if (bytes.size() > kLargestFile) {
      problem = "larger than 1 MiB; not a configuration file";
    } else {
      return bytes;
    }
  }
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(std::vector<std::string>& errors) : errors_(errors) {}

  void read_file(const std::string& name, const Origin& from) {
    const bool included = from.kind == Origin::Kind::file;
    const auto fail = [&](const std::string& problem) {
      if (included) {
        errors_.push_back(error_at(from, fmt::format("cannot include '{}': {}", printable(name), problem)));
      } else {
        errors_.push_back(error_at({Origin::Kind::file, name, 0}, problem));
      }
    };
    if (included && ++includes_ > kMostIncludes) {
      if (includes_ == kMostIncludes + 1) fail(fmt::format("more than {} includes", kMostIncludes));
      return;
    }
    std::error_code code;
    const fs::path identity = fs::weakly_canonical(name, code);
    for (const auto& open : open_) {
      if (open.identity == identity) return fail("include cycle: " + chain_to(name));
    }
    std::string problem;
    const std::optional<std::string> bytes = file_bytes(name, problem);
    if (!bytes) return fail(problem);
    open_.push_back({name, identity});
    read_text(*bytes, name, true);
    open_.pop_back();
  }

  void read_text(std::string_view text, const std::string& name, bool may_include) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    Origin origin{Origin::Kind::file, name, 0};
    if (const std::string problem = not_text(text); !problem.empty()) {
      errors_.push_back(error_at(origin, problem));
      return;
    }
    std::string section;
    std::map<std::string, int> first_line;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = trimmed(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      ++origin.line;
      if (line.empty() || starts_comment(line.front())) continue;
      if (line.front() == '[') {
        read_section(line, origin, section);
      } else {
        read_entry(line, origin, section, first_line, may_include);
      }
    }
  }

  ConfigLines lines;

 private:
  struct OpenFile {
    std::string name;
    fs::path identity;
  };

  void read_section(std::string_view line, const Origin& origin, std::string& section) {
    const std::string_view header = without_comment(line);
    const std::string_view name = header.size() < 2 ? "" : trimmed(header.substr(1, header.size() - 2));
    if (header.back() != ']' || name.empty()) {
      errors_.push_back(error_at(origin, fmt::format("expected '[section]', got '{}'", printable(header))));
      return;
    }
    section = name;
    lines.sections.push_back({section, origin});
  }

  void read_entry(std::string_view line, const Origin& origin, const std::string& section,
                  std::map<std::string, int>& first_line, bool may_include) {
    const std::size_t equals = without_comment(line).find('=');
    const std::string key(trimmed(line.substr(0, equals)));
    if (equals == std::string_view::npos || key.empty()) {
      errors_.push_back(error_at(origin, fmt::format("expected 'key = value', got '{}'", printable(line))));
      return;
    }
    const Value value = read_value(line.substr(equals + 1));
    if (!value.error.empty()) {
      errors_.push_back(error_at(origin, fmt::format("'{}': {}", printable(key), value.error)));
      return;
    }
    Entry entry{section, key, value.text, origin};
    if (key == "include") return include(entry, may_include);
    const bool repeats = section == "exclude" && key == "rule";
    const auto [first, is_new] = first_line.emplace(entry.full_key(), origin.line);
    if (!is_new && !repeats) {
      errors_.push_back(error_at(origin, fmt::format("'{}' is given twice in this file; first in line {}",
                                                     printable(entry.full_key()), first->second)));
      return;
    }
    lines.entries.push_back(std::move(entry));
  }

  void include(const Entry& entry, bool may_include) {
    if (!may_include) {
      errors_.push_back(error_at(entry.origin, "'include' is only possible in a file"));
    } else if (!entry.section.empty()) {
      errors_.push_back(error_at(entry.origin, "'include' must stand before the first section"));
    } else if (entry.value.empty()) {
      errors_.push_back(error_at(entry.origin, "'include' names no file"));
    } else {
      const fs::path beside = fs::path(entry.origin.file).parent_path() / entry.value;
      read_file(beside.lexically_normal().string(), entry.origin);
    }
  }

  std::string chain_to(const std::string& name) const {
    std::string chain;
    for (const OpenFile& open : open_) chain += open.name + " -> ";
    return chain + name;
  }

  std::vector<std::string>& errors_;
  std::vector<OpenFile> open_;
  int includes_ = 0;
};

}  // namespace

std::string Origin::text() const {
  if (kind == Kind::built_in) return "default";
  if (kind == Kind::command_line) return "command line";
  const std::string name = file.empty() ? "text" : file;
  return line > 0 ? fmt::format("{}:{}", name, line) : name;
}

std::string error_at(const Origin& origin, std::string_view message) {
  return fmt::format("{}: error: {}", origin.text(), message);
}

ConfigLines read_config_file(const std::string& path, std::vector<std::string>& errors) {
  Reader reader(errors);
  reader.read_file(path, {});
  return std::move(reader.lines);
}

ConfigLines read_config_text(std::string_view text, const std::string& name, std::vector<std::string>& errors) {
  Reader reader(errors);
  if (text.size() > kLargestFile) {
    errors.push_back(error_at({Origin::Kind::file, name, 0}, "larger than 1 MiB; not a configuration"));
  } else {
    reader.read_text(text, name, false);
  }
  return std::move(reader.lines);
}

std::vector<Entry> read_overrides(const std::vector<std::string>& words, std::vector<std::string>& errors) {
  const Origin origin{Origin::Kind::command_line};
  std::vector<Entry> entries;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string key(trimmed(std::string_view(word).substr(0, equals)));
    if (equals == std::string::npos || key.empty()) {
      errors.push_back(error_at(origin, fmt::format("expected 'section.key=value', got '{}'", printable(word))));
      continue;
    }
    const std::string value(trimmed(std::string_view(word).substr(equals + 1)));
    if (!not_text(word).empty() || word.find_first_of("\n\r") != std::string::npos) {
      errors.push_back(
          error_at(origin, fmt::format("the value of '{}' is not one line of UTF-8 text", printable(key))));
      continue;
    }
    entries.push_back({"", key, value, origin});
  }
  return entries;
}

std::string quoted_for_file(const std::string& value) {
  const bool quoted = value.starts_with('"');
  if (!quoted && std::string(without_comment(value)) == value) return value;
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

}  // namespace ropewalk
