// Writes the directory of a run whose log is as long as asked for, to measure what reading it takes:
//   long_log DIR [STEPS LAYERS KINDS]      (default: 100000 48 12)
//   /usr/bin/time -v ropewalk report DIR -o page.html

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/train/long_log.h"
#include "tests/train/storage_testing.h"

int main(int count, char** words) {
  if (count != 2 && count != 5) {
    std::fprintf(stderr, "usage: long_log DIR [STEPS LAYERS KINDS]\n");
    return 2;
  }
  ropewalk::testing_support::LongLog size{.steps = 100'000, .layers = 48, .kinds = 12, .heads = 16};
  if (count == 5) {
    size.steps = std::atoll(words[2]);
    size.layers = std::atoll(words[3]);
    size.kinds = std::atoll(words[4]);
  }
  const std::string directory = words[1];
  std::filesystem::create_directories(directory);
  ropewalk::testing_support::write_long_log(directory, size);
  ropewalk::testing_support::write_text(
      directory + "/summary.json",
      R"({"status":"finished","final":{"step":)" + std::to_string(size.steps) +
          R"(,"train_loss":2,"eval":{"protocol":"same_tokens","lengths":[64,128],"loss":[2,3]}}})");
  return 0;
}
