#include "train/describe.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

class DescribeArchitectures : public TinyTraining {
 protected:
  /// The line that begins with `key`, without it and the blanks after.
  static std::string line(const std::string& text, const std::string& key) {
    const std::string all = "\n" + text;
    const std::size_t at = all.find("\n" + key + " ");
    if (at == std::string::npos) return "";
    const std::size_t value = all.find_first_not_of(' ', at + 1 + key.size());
    return all.substr(value, all.find('\n', value) - value);
  }
};

TEST_F(DescribeArchitectures, AnEncoderDecoderHasTwoStacksAndBothHalvesOfAPair) {
  const std::string text = describe(resolved({"model.arch=encoder_decoder", "data.source=task", "data.task=addition",
                                              "data.max_length=5", "eval.lengths=5,7", "model.d_ff=24"}));
  EXPECT_TRUE(line(text, "model").starts_with("encoder and decoder of 2 layers, d_model 16, ")) << text;
  EXPECT_EQ(line(text, "attention"), "encoder bidirectional, decoder causal and across to the source, all positions");
  EXPECT_EQ(line(text, "  encoder.blocks.*.ffn.up"), std::to_string(2 * (24 * 16 + 24))) << text;
  EXPECT_EQ(line(text, "  blocks.*.cross_attention.query"), std::to_string(2 * (16 * 16 + 16))) << text;
  // Sources of 11 digits and signs, targets of 6 digits and <end>.
  EXPECT_EQ(line(text, "a sequence"), "11 source and 7 target positions at most");
  EXPECT_TRUE(line(text, "a step").starts_with("144 tokens, ")) << "8 pairs of 18 positions: " << text;
  EXPECT_NE(line(text, "  a source token"), "") << text;
  EXPECT_NE(line(text, "  a target token"), "") << text;
  EXPECT_NE(line(text, "memory, about").find("evaluation at 15 source and 9 target positions"), std::string::npos)
      << text;
  EXPECT_EQ(line(text, "  of the source"), "128 bytes a token and layer, 256 a token in all (cross-attention)");
}

TEST_F(DescribeArchitectures, AnEncoderHasNoCache) {
  const std::string text = describe(resolved({"model.arch=encoder"}));
  EXPECT_EQ(line(text, "attention"), "bidirectional, all positions");
  EXPECT_TRUE(line(text, "key/value cache").starts_with("none: ")) << text;
}

}  // namespace
}  // namespace ropewalk
