// docs/python.md: what it says to paste is pasted, over a sweep and a running run of the names that it uses.

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "experiments/run_result.h"
#include "experiments/statistics.h"
#include "run_binary.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

constexpr const char* kSweep =
    "[model]\nn_layers = 2\nd_model = 16\nn_heads = 2\n[data]\npath = text.txt\n"
    "[train]\ncontext_length = 16\nbatch_size = 4\nsteps = 30\n[optim]\nwarmup_steps = 3\n"
    "[eval]\nlengths = 16, 32\ntokens = 256\n[sweep]\nname = positions\nseeds = 1..3\n"
    "[grid]\nposition.encoding = rope, alibi, learned\n";

/// Losses by seed of a variant at the length of this index.
std::vector<double> losses(const SweepResults& sweep, const std::string& variant, std::size_t length) {
  std::map<int64_t, double> by_seed;
  for (const RunResult& run : sweep.runs) {
    if (run.variant == variant) by_seed[run.seed] = run.loss.at(length);
  }
  std::vector<double> out;
  for (const auto& [seed, loss] : by_seed) out.push_back(loss);
  return out;
}

TEST(PythonPage, EveryBlockRunsOnARealSweepAndARunThatIsGoingOn) {
  const TemporaryDirectory dir;
  std::string text;
  while (text.size() < 8000) text += "in the beginning was the word, line " + std::to_string(text.size()) + ".\n";
  write_text(dir / "text.txt", text);
  write_text(dir / "positions.ini", kSweep);
  const Finished swept = run_binary(dir.path(), {"sweep", "positions.ini"});
  ASSERT_EQ(swept.code, 0) << swept.err;
  // Killed without a chance to close its file, a run leaves what a reader of a running one sees.
  const std::string live = dir / "runs/live";
  write_text(dir / "live.ini", std::string(kSweep).substr(0, std::string(kSweep).find("[sweep]")));
  {
    Binary training(dir.path(), {"train", "live.ini", "--run", "runs/live", "train.steps=1000000"});
    for (int i = 0; i < 600 && !std::filesystem::exists(live + "/checkpoints/step-000000000200.safetensors"); ++i) {
      usleep(100'000);
    }
    ::kill(training.pid(), SIGKILL);
    training.wait();
  }
  ASSERT_TRUE(std::filesystem::exists(live + "/log.h5"));

  const std::string python = access("/usr/bin/python3", X_OK) == 0 ? "/usr/bin/python3" : "python3";
  const int status = std::system(("cd '" + dir.path() + "' && " + python +
                                  " " ROPEWALK_SOURCE_DIR "/tests/experiments/run_python_page.py " ROPEWALK_SOURCE_DIR
                                  "/docs/python.md > page.txt 2>&1")
                                     .c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
    FAIL() << "./dev setup installs what docs/python.md needs: " << read_text(dir / "page.txt");
  }
  const std::string said = read_text(dir / "page.txt");
  ASSERT_EQ(WEXITSTATUS(status), 0) << said;
  EXPECT_GT(std::filesystem::file_size(dir / "gradients.png"), 10'000U);
  EXPECT_GT(std::filesystem::file_size(dir / "length.png"), 10'000U);

  // The intervals of the page are those of the program.
  const SweepResults sweep = read_sweep_results(dir / "runs/positions");
  for (std::size_t i = 0; i < 2; ++i) {
    const MeanInterval d = paired_difference(losses(sweep, "alibi", i), losses(sweep, "rope", i));
    ASSERT_EQ(d.n, 3U);
    const std::string line = fmt::format("alibi - rope at {}: ", i == 0 ? 16 : 32);
    const std::size_t at = said.find(line);
    ASSERT_NE(at, std::string::npos) << said;
    double mean = 0, low = 0, high = 0;
    int n = 0;
    ASSERT_EQ(std::sscanf(said.c_str() + at + line.size(), "%lf [%lf, %lf], n = %d", &mean, &low, &high, &n), 4)
        << said;
    EXPECT_NEAR(mean, d.mean, 2e-6);
    EXPECT_NEAR(low, d.low, 2e-6);
    EXPECT_NEAR(high, d.high, 2e-6);
    EXPECT_EQ(n, 3);
  }
}

}  // namespace
}  // namespace ropewalk
