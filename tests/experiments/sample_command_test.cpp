#include "experiments/sample_command.h"

#include <gtest/gtest.h>

#include "data/utf8.h"
#include "experiments/exit_code.h"
#include "run_binary.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

constexpr const char* kModel =
    "[model]\nn_layers = 1\nd_model = 16\nn_heads = 2\n[train]\ncontext_length = 16\nbatch_size = 4\nsteps = 60\n"
    "[optim]\nlr = 1e-2\nwarmup_steps = 5\n[eval]\nlengths = 16\ntokens = 64\n";

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// One trained run of each kind of data, made once.
class SampleCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>();
    std::string text;
    while (text.size() < 4000) text += "in the beginning was the w\xC3\xB6rd.\n";
    write_text(file("text.txt"), text);
    std::string tokens;
    for (int i = 0; i < 3000; ++i) tokens += std::string{static_cast<char>(i % 7), '\0'};
    write_text(file("tokens.bin"), tokens);
    write_text(file("model.ini"), kModel);
    train("bytes", {"data.path=text.txt"});
    train("chars", {"data.path=text.txt", "data.tokenizer=chars"});
    train("learned", {"data.path=text.txt", "position.encoding=learned"});
    train("ids", {"data.source=tokens", "data.path=tokens.bin"});
    train("task", {"data.source=task", "data.task=copy", "data.max_length=3", "data.alphabet=4", "eval.lengths=3"});
    // Nothing but a run's own directory is needed.
    std::filesystem::remove(file("text.txt"));
    std::filesystem::remove(file("tokens.bin"));
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static std::string file(const std::string& name) { return *directory_ / name; }
  static Finished run(std::vector<std::string> words) { return run_binary(directory_->path(), std::move(words)); }
  static void train(const std::string& name, std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), {"train", "model.ini", "--run", name});
    const Finished trained = run(overrides);
    ASSERT_EQ(trained.code, kDone) << trained.err;
  }
  static Finished sample(std::vector<std::string> words) {
    words.insert(words.begin(), "sample");
    return run(std::move(words));
  }
  static std::string text_of(std::vector<std::string> words) {
    const Finished result = sample(std::move(words));
    EXPECT_EQ(result.code, kDone) << result.err;
    return result.out;
  }
  static std::string refused(std::vector<std::string> words, int code = kUsage) {
    const Finished result = sample(std::move(words));
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  }

 private:
  static std::unique_ptr<TemporaryDirectory> directory_;
};

std::unique_ptr<TemporaryDirectory> SampleCommand::directory_;

TEST_F(SampleCommand, ContinuesAPromptAndTellsWhatItCost) {
  const Finished result = sample({"bytes", "--prompt", "in the ", "--tokens", "20"});
  ASSERT_EQ(result.code, kDone) << result.err;
  EXPECT_TRUE(result.out.starts_with("in the ")) << result.out;
  EXPECT_TRUE(result.out.size() == 28 || (result.out.size() == 27 && result.out.back() == '\n')) << result.out;
  EXPECT_TRUE(holds(result.err, "prefill   7 tokens of 1 prompt, ")) << result.err;
  EXPECT_TRUE(holds(result.err, "decoding  19 tokens, ")) << result.err;
  // 7 + 19 tokens are fed; 2 heads of 8 as keys and as values in f32.
  EXPECT_TRUE(holds(result.err, "cache     3328 bytes (3.2 KiB), 128 a token: 1 layer of 128")) << result.err;
}

TEST_F(SampleCommand, TheSameSeedGivesTheSameText) {
  const std::vector<std::string> words = {"bytes", "--prompt", "in", "--tokens", "40"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return text_of(all);
  };
  EXPECT_EQ(with({}), with({"--seed", "1", "--temperature=1", "--top-p", "1"}));
  EXPECT_NE(with({}), with({"--seed", "2"}));
  EXPECT_EQ(with({"--temperature", "0"}), with({"--top-k", "1"}));
}

TEST_F(SampleCommand, PromptsSideBySideAreSeparatedAndEachIsWhatItWouldBeAlone) {
  write_text(file("prompt.txt"), "was the");
  const std::string together = text_of({"bytes", "--prompt", "in the ", "--prompt-file", "prompt.txt", "--prompt-ids",
                                        "119,97", "--tokens", "12", "--temperature", "0"});
  const std::vector<std::string> prompts = {"in the ", "was the", "wa"};
  std::string expected;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    expected += (i > 0 ? "\n" : "") + ("==> prompt " + std::to_string(i + 1) + " of 3 <==\n") +
                text_of({"bytes", "--prompt", prompts[i], "--tokens", "12", "--temperature", "0"});
  }
  EXPECT_EQ(together, expected);
}

TEST_F(SampleCommand, AnEmptyPromptStandsForALineEnd) {
  for (const char* name : {"bytes", "chars"}) {
    const std::string none = text_of({name, "--tokens", "9", "--temperature", "0"});
    EXPECT_EQ(text_of({name, "--prompt", "", "--tokens", "9", "--temperature", "0"}), none);
    EXPECT_EQ(text_of({name, "--prompt", "\n", "--tokens", "9", "--temperature", "0"}), "\n" + none);
  }
  EXPECT_TRUE(holds(refused({"ids"}), "this run knows token ids only"));
  EXPECT_EQ("<begin> " + text_of({"task", "--tokens", "3", "--temperature", "0"}),
            text_of({"task", "--prompt", "<begin>", "--tokens", "3", "--temperature", "0"}));
}

TEST_F(SampleCommand, CharactersComeWhole) {
  const std::string text = text_of({"chars", "--prompt", "the w\xC3\xB6", "--tokens", "30"});
  EXPECT_TRUE(text.starts_with("the w\xC3\xB6")) << text;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    ASSERT_GT(c.size, 0U) << "byte " << at << " of " << text;
    at += c.size;
  }
  EXPECT_EQ(
      refused({"chars", "--prompt", "the Q"}),
      "ropewalk: error: prompt 1: the character 'Q' (U+0051) at byte 4 is not in the vocabulary of 16 characters\n");
}

TEST_F(SampleCommand, TasksTakeAndGiveSymbolsAndEndAtTheirEnd) {
  const std::string text = text_of({"task", "--prompt", "<begin> a b >", "--tokens", "50", "--temperature", "0"});
  EXPECT_TRUE(text.starts_with("<begin> a b > ")) << text;
  const std::size_t end = text.find("<end>");
  EXPECT_TRUE(end == std::string::npos || end + 6 == text.size()) << text;
  EXPECT_TRUE(holds(refused({"task", "--prompt", "<begin> a z >"}), "'z' at byte 10 is not a symbol of this task"));
}

TEST_F(SampleCommand, TokenFilesTakeAndGiveIds) {
  const std::string text = text_of({"ids", "--prompt-ids", "1,2,3", "--tokens", "2", "--temperature", "0"});
  EXPECT_EQ(text.substr(0, 6), "1 2 3 ");
  EXPECT_EQ(text_of({"ids", "--prompt", "1 2 3", "--tokens", "2", "--temperature", "0"}), text);
  for (const char* bad : {"1,7", "-1", "1,", ",1", "1 2", "x", "99999999999"}) {
    EXPECT_EQ(refused({"ids", "--prompt-ids", bad}),
              std::string("ropewalk: error: prompt 1: '") + bad + "' is no list of token ids from 0 to 6, as 1,2,3\n");
  }
}

TEST_F(SampleCommand, OverridesThatEvalTakesChangeThePositions) {
  const std::vector<std::string> words = {"bytes", "--prompt", "in the beginning was the w", "--tokens", "40"};
  std::vector<std::string> scaled = words;
  scaled.insert(scaled.end(), {"position.rope_scaling=linear", "position.rope_factor=8"});
  EXPECT_NE(text_of(words), text_of(scaled));
  EXPECT_TRUE(holds(refused({"bytes", "position.encoding=alibi"}), "alibi against rope"));
  EXPECT_TRUE(holds(refused({"bytes", "eval.lengths=16"}), "eval.lengths does not change what a trained model"));
  EXPECT_TRUE(holds(refused({"bytes", "model.dropout=0.5"}), "model.dropout does not change what a trained model"));
  EXPECT_TRUE(holds(refused({"bytes", "position.rope_scalin=linear"}), "did you mean 'position.rope_scaling'?"));
}

TEST_F(SampleCommand, ALearnedTableEndsTheTextAndLongerPromptsAreRefused) {
  const Finished result = sample({"learned", "--prompt", "in the begin", "--tokens", "50"});
  ASSERT_EQ(result.code, kDone) << result.err;
  EXPECT_TRUE(
      holds(result.err, "prompt 1: ends after 5 new tokens, as the model has positions for 16 (position.max_length)"))
      << result.err;
  EXPECT_TRUE(holds(refused({"learned", "--prompt", "in the beginning w"}, kError),
                    "prompt 1 has 18 tokens, but the model has positions for 16 (position.max_length)"));
}

TEST_F(SampleCommand, BadValuesAreNamed) {
  EXPECT_TRUE(holds(refused({"bytes", "--tokens", "0"}), "--tokens = '0': must be a whole number from 1 to"));
  EXPECT_TRUE(holds(refused({"bytes", "--temperature", "-1"}), "--temperature = '-1': must be a number from 0 to"));
  EXPECT_TRUE(holds(refused({"bytes", "--top-p", "1.5"}), "--top-p = '1.5': must be a number from 0 to 1"));
  EXPECT_TRUE(holds(refused({"bytes", "--top-k", "0"}), "--top-k = '0': must be a whole number from 1"));
  EXPECT_TRUE(
      holds(refused({"bytes", "--temperature", "0", "--seed", "3"}), "--seed does nothing with --temperature 0"));
  EXPECT_TRUE(holds(refused({"nowhere"}), "nowhere: error: no config.ini; give the directory of a run"));
  EXPECT_TRUE(holds(refused({"bytes", "--prompt-file", "missing.txt"}, kUnreadable), "missing.txt"));
}

TEST_F(SampleCommand, AReaderThatGoesAwayOrAFullDiskEndsIt) {
  const std::string command =
      std::string("cd ") + file(".") + " && " + ROPEWALK_BINARY + " sample bytes --tokens 100000 ";
  EXPECT_NE(std::system((command + "> /dev/full 2> full.txt").c_str()), 0);
  EXPECT_TRUE(holds(read_text(file("full.txt")), "standard output cannot be written"));
  // Well before all tokens are there.
  EXPECT_EQ(std::system((command + "2> /dev/null | head -c 5 > head.txt").c_str()), 0);
  EXPECT_EQ(read_text(file("head.txt")).size(), 5U);
}

}  // namespace
}  // namespace ropewalk
