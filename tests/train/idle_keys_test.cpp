#include "train/idle_keys.h"

#include "tests/train/config_fixture.h"

namespace ropewalk {
namespace {

using testing::ConfigTest;
using testing::Messages;

class IdleKeys : public ConfigTest {
 protected:
  static Messages warnings(const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"data.path=text.txt"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return load_config("", all).warnings;
  }
  /// The one warning without where things came from.
  static std::string warning(const std::vector<std::string>& overrides) {
    const Messages all = warnings(overrides);
    if (all.size() != 1) return std::to_string(all.size()) + " warnings";
    const std::string lead = "command line: warning: ";
    const std::size_t end = all[0].find(" (command line, ");
    return all[0].starts_with(lead) ? all[0].substr(lead.size(), end - lead.size()) : all[0];
  }
};

TEST_F(IdleKeys, EachThatWasGivenIsNamedWithWhatItDependsOn) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"position.encoding=alibi", "position.rope_scaling=yarn"},
       "position.rope_scaling = yarn changes nothing with position.encoding = alibi"},
      {{"position.t5_buckets=8"}, "position.t5_buckets = 8 changes nothing with position.encoding = rope"},
      {{"position.rope_factor=4"}, "position.rope_factor = 4 changes nothing with position.rope_scaling = none"},
      {{"position.rope_scaling=linear", "position.rope_factor=2", "position.yarn_beta_fast=9"},
       "position.yarn_beta_fast = 9 changes nothing with position.rope_scaling = linear"},
      {{"position.max_length=512"}, "position.max_length = 512 changes nothing with position.rope_scaling = none"},
      {{"position.encoding=alibi", "position.max_length=512"},
       "position.max_length = 512 changes nothing with position.encoding = alibi"},
      {{"attention.global_tokens=2"}, "attention.global_tokens = 2 changes nothing with attention.window_radius = -1"},
      {{"attention.top_k=8"}, "attention.top_k = 8 changes nothing with attention.pattern = dense"},
      {{"attention.index_hadamard=true"},
       "attention.index_hadamard = true changes nothing with attention.pattern = dense"},
      {{"attention.pattern=top_k", "attention.top_k=8", "attention.index_hadamard=true"},
       "attention.index_hadamard = true changes nothing with attention.index_precision = f32"},
      {{"model.norm_placement=none", "model.norm=rmsnorm"},
       "model.norm = rmsnorm changes nothing with model.norm_placement = none"},
      {{"data.task=sort"}, "data.task = sort changes nothing with data.source = text"},
      {{"data.gap=3"}, "data.gap = 3 changes nothing with data.source = text"},
      {{"data.token_dtype=uint32"}, "data.token_dtype = uint32 changes nothing with data.source = text"},
      {{"data.mask_probability=0.3"}, "data.mask_probability = 0.3 changes nothing with model.arch = decoder"},
      {{"eval.stride=8"}, "eval.stride = 8 changes nothing with eval.protocol = same_tokens"},
      {{"eval.protocol=sliding", "eval.tail=8"}, "eval.tail = 8 changes nothing with eval.protocol = sliding"},
      {{"optim.schedule=constant", "optim.min_lr=0"},
       "optim.min_lr = 0 changes nothing with optim.schedule = constant"}};
  for (const auto& [overrides, expected] : cases) EXPECT_EQ(warning(overrides), expected);
  EXPECT_EQ(warnings({"data.source=task", "eval.protocol=sliding", "data.digit_order=least_significant_first"}),
            (Messages{"command line: warning: data.path = text.txt changes nothing with data.source = task (command "
                      "line, command line)",
                      "command line: warning: data.digit_order = least_significant_first changes nothing with "
                      "data.task = copy (command line, default)",
                      "command line: warning: eval.protocol = sliding changes nothing with data.source = task "
                      "(command line, command line)"}));
}

TEST_F(IdleKeys, WhatIsReadOrAtItsDefaultIsNotNamed) {
  for (const std::vector<std::string>& overrides :
       std::vector<std::vector<std::string>>{{},
                                             {"position.rope_factor=1", "position.t5_buckets=32", "eval.stride=0"},
                                             {"position.rope_scaling=yarn", "position.rope_factor=4",
                                              "position.yarn_beta_fast=9", "position.max_length=64"},
                                             {"position.encoding=learned", "position.max_length=2048"},
                                             {"attention.window_radius=8", "attention.global_tokens=2"},
                                             {"attention.pattern=top_k", "attention.top_k=8", "attention.index_heads=2",
                                              "attention.index_warmup_steps=5"},
                                             {"attention.pattern=top_k", "attention.top_k=8",
                                              "attention.index_precision=int8", "attention.index_hadamard=true"},
                                             {"model.arch=encoder", "data.mask_probability=0.3"},
                                             {"optim.label_smoothing=0.1"},
                                             {"model.norm_placement=none", "model.qk_norm=true", "model.norm_eps=1e-6"},
                                             {"eval.protocol=sliding", "eval.stride=8"}}) {
    EXPECT_EQ(warnings(overrides), Messages{});
  }
}

TEST_F(IdleKeys, AResolvedFileNamesOnlyWhatItsFirstOneDid) {
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"data.path=text.txt"},
           {"data.source=task", "position.encoding=learned"},
           {"data.path=text.txt", "model.arch=encoder"},
           {"data.source=task", "model.arch=encoder_decoder"},
           {"data.path=text.txt", "eval.protocol=sliding", "optim.schedule=constant", "position.encoding=t5"}}) {
    write("resolved.ini", print_config(load_config("", overrides), true));
    EXPECT_EQ(load_config("resolved.ini", {}).warnings, Messages{}) << overrides[0];
  }
  write("resolved.ini", print_config(load_config("", {"data.path=text.txt", "position.rope_factor=4"}), true));
  EXPECT_EQ(load_config("resolved.ini", {}).warnings.size(), 1U);
}

}  // namespace
}  // namespace ropewalk
