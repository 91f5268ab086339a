#include "train/config_resolve.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/train/config_fixture.h"

namespace ropewalk {
namespace {

using testing::ConfigTest;
using testing::errors_of;
using testing::Messages;
using testing::table;

constexpr const char* kTask = "[data]\nsource = task\n";
constexpr const char* kText = "[data]\npath = text.txt\n";

class ConfigResolve : public ConfigTest {
 protected:
  static ResolvedConfig load(const std::string& text, const std::vector<std::string>& overrides = {},
                             Purpose purpose = Purpose::train) {
    write("run.ini", text);
    return load_config("run.ini", overrides, purpose, table());
  }
  static Messages refused(const std::string& text, const std::vector<std::string>& overrides = {},
                          Purpose purpose = Purpose::train) {
    return errors_of([&] { load(text, overrides, purpose); });
  }
  /// What is wrong with these lines beside a valid task.
  static Messages refused_task(const std::string& text) { return refused(kTask + text); }
  /// The same beside a text.
  static Messages refused_text(const std::string& text) { return refused(kText + text); }
};

TEST_F(ConfigResolve, DefaultsAreFilledIn) {
  const Config c = load(kText).config;
  EXPECT_EQ(c.model.n_kv_heads, 4);
  EXPECT_EQ(c.model.d_head, 32);
  EXPECT_EQ(c.model.d_ff, 512);
  EXPECT_EQ(c.position.encoding, "rope");
  EXPECT_EQ(c.position.max_length, 128);
  EXPECT_EQ(c.position.integer("rope_original_context"), 128);
  EXPECT_EQ(c.position.integer("rope_dims"), 32);
  EXPECT_EQ(c.optim.min_lr, 1e-3 / 10);
  EXPECT_EQ(c.optim.warmup_steps, 100);
  EXPECT_EQ(c.eval.lengths, (std::vector<int64_t>{128, 192, 256, 512, 1024}));
  EXPECT_EQ(c.eval.tail, 64);
}

TEST_F(ConfigResolve, DerivedValuesFollowWhatIsGiven) {
  const Config c =
      load(kText, {"model.d_model=96", "model.n_heads=6", "train.context_length=5", "optim.lr=0.02", "train.steps=50"})
          .config;
  EXPECT_EQ(c.model.n_kv_heads, 6);
  EXPECT_EQ(c.model.d_head, 16);
  EXPECT_EQ(c.model.d_ff, 384);
  EXPECT_EQ(c.position.max_length, 5);
  EXPECT_EQ(c.optim.min_lr, 0.02 / 10);
  EXPECT_EQ(c.optim.warmup_steps, 5);
  EXPECT_EQ(c.eval.lengths, (std::vector<int64_t>{5, 7, 10, 20, 40}));
  EXPECT_EQ(c.eval.tail, 2);
}

TEST_F(ConfigResolve, AContextOfOneTokenHasDistinctLengths) {
  const Config c = load(kText, {"train.context_length=1"}).config;
  EXPECT_EQ(c.eval.lengths, (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(c.eval.tail, 1);
}

TEST_F(ConfigResolve, TasksAreEvaluatedAtMultiplesOfTheLongestTrainedProblem) {
  const Config c = load(kTask, {"data.max_length=10"}).config;
  EXPECT_EQ(c.eval.lengths, (std::vector<int64_t>{10, 15, 20, 40, 80}));
  EXPECT_EQ(refused_task("[eval]\nlengths = 8, 16\ntail = 9\n"), Messages{}) << "problems have answers, not tails";
}

TEST_F(ConfigResolve, WhatIsGivenStays) {
  const Config c = load(kTask, {"model.n_kv_heads=2", "model.d_head=6", "model.d_ff=11", "position.max_length=300",
                                "optim.min_lr=0", "optim.warmup_steps=0", "eval.lengths=512,64", "eval.tail=9"})
                       .config;
  EXPECT_EQ(c.model.n_kv_heads, 2);
  EXPECT_EQ(c.model.d_head, 6);
  EXPECT_EQ(c.model.d_ff, 11);
  EXPECT_EQ(c.position.integer("rope_original_context"), 300);
  EXPECT_EQ(c.optim.min_lr, 0);
  EXPECT_EQ(c.optim.warmup_steps, 0);
  EXPECT_EQ(c.eval.lengths, (std::vector<int64_t>{64, 512}));
  EXPECT_EQ(c.eval.tail, 9);
}

TEST_F(ConfigResolve, LaterValuesWinAndOriginsFollow) {
  write("base.ini", "[model]\nn_layers = 1\nd_model = 64\n[train]\nseed = 7\n");
  const ResolvedConfig r =
      load("include = base.ini\n[model]\nn_layers = 2\n[data]\nsource = task\n", {"train.seed=3", "train.seed=4"});
  EXPECT_EQ(r.config.model.n_layers, 2);
  EXPECT_EQ(r.config.model.d_model, 64);
  EXPECT_EQ(r.config.train.seed, 4);
  EXPECT_EQ(r.origin("model.n_layers").text(), "run.ini:3");
  EXPECT_EQ(r.origin("model.d_model").text(), "base.ini:3");
  EXPECT_EQ(r.origin("train.seed").text(), "command line");
  EXPECT_EQ(r.origin("optim.lr").text(), "default");
}

TEST_F(ConfigResolve, AllErrorsComeAtOnce) {
  write("run.ini",
        "[model]\nn_layer = 4\nd_model = 250\nn_heads = 8\nnorm = layer\n[optim]\nlr 3\nlr = abc\n[trian]\nlr = 1\n"
        "[data]\nsource = task\n");
  try {
    load_config("run.ini", {"model.layerz=4", "train.steps=3.5"}, Purpose::train, table());
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "run.ini:7: error: expected 'key = value', got 'lr 3'\n"
                 "run.ini:2: error: unknown key 'model.n_layer'; did you mean 'model.n_layers'?\n"
                 "run.ini:5: error: model.norm = layer: must be one of layernorm, rmsnorm\n"
                 "run.ini:8: error: optim.lr = abc: 'abc' is not a finite number\n"
                 "run.ini:10: error: unknown key 'trian.lr'; did you mean 'optim.lr'?\n"
                 "command line: error: unknown key 'model.layerz'; did you mean 'model.n_layers'?\n"
                 "command line: error: train.steps = 3.5: '3.5' is not a whole number\n"
                 "run.ini:3: error: model.d_model = 250 is not divisible by model.n_heads = 8; change one of them or "
                 "give model.d_head (run.ini:3, run.ini:4)\n"
                 "8 errors; nothing was started");
  }
}

TEST_F(ConfigResolve, NoCrossCheckSpeaksOfARefusedValue) {
  EXPECT_EQ(refused_task("[model]\nd_model = 250\nn_heads = x\n"),
            Messages{"run.ini:5: error: model.n_heads = x: 'x' is not a whole number"});
}

TEST_F(ConfigResolve, SweepsAreNamedWhereARunIsExpected) {
  EXPECT_EQ(refused_task("[model]\nn_layers = 2, 4\n"),
            Messages{"run.ini:4: error: model.n_layers = 2, 4: takes one value here; 'ropewalk sweep' runs lists and "
                     "ranges of values"});
  EXPECT_EQ(refused_task("[grid]\nmodel.n_layers = 2, 4\n[variant a]\n"),
            (Messages{"run.ini:3: error: [grid] belongs to a sweep; run it with 'ropewalk sweep'",
                      "run.ini:5: error: [variant a] belongs to a sweep; run it with 'ropewalk sweep'"}));
  EXPECT_EQ(refused(kTask, {"sweep.seeds=1..3"}),
            Messages{"command line: error: 'sweep.seeds' belongs to a sweep; run it with 'ropewalk sweep'"});
}

TEST_F(ConfigResolve, HeadsMustDivide) {
  EXPECT_EQ(
      refused_task("[model]\nn_kv_heads = 3\n"),
      Messages{"run.ini:4: error: model.n_heads = 4 is not divisible by model.n_kv_heads = 3 (default, run.ini:4)"});
  EXPECT_EQ(refused_task("[model]\nd_model = 20\nn_heads = 3\nd_head = 12\n"), Messages{});
}

TEST_F(ConfigResolve, RotationNeedsPairs) {
  EXPECT_EQ(refused_task("[model]\nd_head = 7\n"),
            Messages{"run.ini:4: error: position.encoding = rope rotates pairs, but the width of a head is odd: "
                     "model.d_head = 7 of model.d_model = 128 and model.n_heads = 4; give an even model.d_head or "
                     "position.rope_dims (run.ini:4, default, default)"});
  EXPECT_EQ(refused_task("[position]\nrope_dims = 5\n"),
            Messages{"run.ini:4: error: position.rope_dims = 5 must be even (run.ini:4)"});
  EXPECT_EQ(refused_task("[position]\nrope_dims = 64\n"),
            Messages{"run.ini:4: error: position.rope_dims = 64 exceeds model.d_head = 32 (run.ini:4, default)"});
  EXPECT_EQ(refused_task("[model]\nd_head = 7\n[position]\nrope_dims = 4\n"), Messages{});
  EXPECT_EQ(refused_task("[model]\nd_head = 7\n[position]\nencoding = alibi\n"), Messages{});
}

TEST_F(ConfigResolve, RopeScalingNeedsSensibleFactors) {
  EXPECT_EQ(
      refused_task("[position]\nrope_scaling = yarn\nrope_factor = 0.5\n"),
      Messages{"run.ini:4: error: position.rope_scaling = yarn needs a factor of at least 1; position.rope_factor "
               "= 0.5 (run.ini:4, run.ini:5)"});
  EXPECT_EQ(
      refused_task("[position]\nrope_scaling = linear\nrope_factor = 0\n"),
      Messages{"run.ini:4: error: position.rope_scaling = linear needs a positive factor; position.rope_factor = 0 "
               "(run.ini:4, run.ini:5)"});
  EXPECT_EQ(refused_task("[position]\nrope_scaling = ntk\nrope_factor = 4\nrope_dims = 2\n"),
            Messages{"run.ini:4: error: position.rope_scaling = ntk needs more than 2 rotated dimensions; "
                     "position.rope_dims = 2 (run.ini:4, run.ini:6)"});
  EXPECT_EQ(refused_task("[position]\nrope_scaling = llama3\nrope_factor = 4\nllama3_low_freq_factor = 4\n"),
            Messages{"run.ini:6: error: position.llama3_low_freq_factor = 4 must be less than "
                     "position.llama3_high_freq_factor = 4 (run.ini:6, default)"});
  EXPECT_EQ(refused_task("[position]\nrope_scaling = yarn\nrope_factor = 4\nyarn_beta_fast = 1\n"),
            Messages{"run.ini:6: error: position.yarn_beta_fast = 1 must be greater than position.yarn_beta_slow = 1 "
                     "(run.ini:6, default)"});
}

TEST_F(ConfigResolve, UnusedEncodingsAreNotChecked) {
  EXPECT_EQ(refused_task("[position]\nencoding = alibi\nrope_scaling = yarn\nrope_factor = 0.5\nrope_dims = 5\n"),
            Messages{});
}

TEST_F(ConfigResolve, SinusoidsNeedAnEvenWidth) {
  EXPECT_EQ(refused_task("[model]\nd_model = 9\nn_heads = 3\n[position]\nencoding = sinusoidal\n"),
            Messages{"run.ini:4: error: model.d_model = 9 must be even with position.encoding = sinusoidal (run.ini:4, "
                     "run.ini:7)"});
}

TEST_F(ConfigResolve, BucketsMustReachFarEnough) {
  EXPECT_EQ(
      refused_task("[position]\nencoding = t5\nt5_buckets = 8\nt5_max_distance = 4\n"),
      Messages{"run.ini:6: error: position.t5_max_distance = 4 must exceed 4, the distances with a bucket of their "
               "own at position.t5_buckets = 8 and attention.causal = true (run.ini:6, run.ini:5, default)"});
  EXPECT_EQ(refused_task("[position]\nencoding = t5\nt5_buckets = 3\n[attention]\ncausal = no\n"),
            Messages{"run.ini:5: error: position.t5_buckets = 3 is too few with attention.causal = false; at least 4 "
                     "(run.ini:5, run.ini:7)"});
}

TEST_F(ConfigResolve, ALearnedTableMustHoldTheTrainingContext) {
  const std::string learned = "[position]\nencoding = learned\nmax_length = 100\n";
  EXPECT_EQ(refused_text(learned),
            Messages{"run.ini:5: error: position.max_length = 100 is less than train.context_length = 128; a learned "
                     "table needs a row for every position (run.ini:5, default)"});
  EXPECT_EQ(refused_text(learned + "[eval]\nlengths = 64\n[train]\ncontext_length = 100\n"), Messages{});
  const ResolvedConfig r = load(std::string(kText) + learned, {"train.context_length=100"});
  EXPECT_EQ(r.warnings,
            Messages{"run.ini:5: warning: eval.lengths 150, 200, 400, 800 exceed position.max_length = 100, "
                     "where the learned table ends (default, run.ini:5)"});
}

TEST_F(ConfigResolve, RandomizedPositionsSetTheLengthOfTablesAndMustSufficeForTheContext) {
  const Config c = load(kTask, {"position.encoding=learned", "position.randomize_to=1024"}).config;
  EXPECT_EQ(c.position.max_length, 1024);
  EXPECT_EQ(load(kTask, {"position.randomize_to=200"}).config.position.integer("rope_original_context"), 200);
  EXPECT_EQ(refused_task("[position]\nrandomize_to = 100\n"),
            Messages{"run.ini:4: error: position.randomize_to = 100 has too few positions for train.context_length = "
                     "128; several times the longest sequence, for example (run.ini:4, default)"});
  EXPECT_EQ(refused_task("[position]\nrandomize_to = 128\n"), Messages{});
  EXPECT_EQ(refused_task("[position]\nencoding = learned\nmax_length = 200\nrandomize_to = 256\n"),
            Messages{"run.ini:5: error: position.max_length = 200 is less than position.randomize_to = 256; a learned "
                     "table needs a row for every position (run.ini:5, run.ini:6)"});
  EXPECT_EQ(load(std::string(kText) + "[position]\nrandomize_to = 256\n[eval]\nlengths = 64, 256, 300\n").warnings,
            Messages{"run.ini:6: warning: eval.lengths 300 exceed position.randomize_to = 256, where positions end "
                     "(run.ini:6, run.ini:4)"});
  // Their offsets train.
  EXPECT_EQ(load(kTask, {"position.encoding=shaw", "position.shaw_clip=200", "position.randomize_to=256"}).warnings,
            Messages{});
}

TEST_F(ConfigResolve, FarBucketsThatNeverTrainAreWarnedOf) {
  const std::string t5 = std::string(kTask) + "[position]\nencoding = t5\n";
  EXPECT_EQ(load(t5).warnings, Messages{});
  EXPECT_EQ(
      load(t5 + "[train]\ncontext_length = 127\n").warnings,
      Messages{"run.ini:6: warning: position.t5_max_distance = 128 exceeds train.context_length = 127; what stands "
               "for farther offsets never trains (default, run.ini:6)"});
  EXPECT_EQ(
      load(kTask, {"position.encoding=shaw", "position.shaw_clip=200"}).warnings,
      Messages{"command line: warning: position.shaw_clip = 200 exceeds train.context_length = 128; what stands for "
               "farther offsets never trains (command line, default)"});
  EXPECT_EQ(load(kTask, {"position.encoding=shaw"}).warnings, Messages{});
}

TEST_F(ConfigResolve, DoubtfulAttentionIsWarnedOf) {
  EXPECT_EQ(
      load(kTask, {"attention.global_tokens=2", "attention.causal=no"}).warnings,
      (Messages{"command line: warning: attention.causal = false lets every position see the token that it has to "
                "predict (command line)",
                "command line: warning: attention.global_tokens = 2 changes nothing with attention.window_radius = -1 "
                "(command line, default)"}));
  EXPECT_EQ(load(kTask, {"attention.global_tokens=2", "attention.window_radius=8"}).warnings, Messages{});
}

TEST_F(ConfigResolve, TheScheduleMustFitTheRun) {
  EXPECT_EQ(refused_task("[optim]\nmin_lr = 0.01\n"),
            Messages{"run.ini:4: error: optim.min_lr = 0.01 exceeds optim.lr = 0.001 (run.ini:4, default)"});
  EXPECT_EQ(refused_task("[optim]\nwarmup_steps = 60\n[train]\nsteps = 50\n"),
            Messages{"run.ini:4: error: optim.warmup_steps = 60 exceeds train.steps = 50 (run.ini:4, run.ini:6)"});
}

TEST_F(ConfigResolve, EvaluationMustFitItsLengths) {
  EXPECT_EQ(refused_text("[eval]\nlengths = 8, 16\ntail = 9\n"),
            Messages{"run.ini:5: error: eval.tail = 9 exceeds 8, the shortest of eval.lengths (run.ini:5, run.ini:4)"});
  EXPECT_EQ(
      refused_text("[eval]\nlengths = 8, 16\nprotocol = sliding\nstride = 9\n"),
      Messages{"run.ini:6: error: eval.stride = 9 exceeds 8, the shortest of eval.lengths (run.ini:6, run.ini:4)"});
  EXPECT_EQ(refused_text("[eval]\nlengths = 128, 1_000_000\n"),
            Messages{"run.ini:4: error: the longest of eval.lengths, 1000000, is more than 1024 times "
                     "train.context_length = 128 (run.ini:4, default)"});
}

TEST_F(ConfigResolve, DataMustBeGiven) {
  EXPECT_EQ(refused(""), Messages{"run.ini: error: data.path must be given for data.source = text (default, default)"});
  EXPECT_EQ(refused("data.source = tokens\n"),
            Messages{"run.ini:1: error: data.path must be given for data.source = tokens (default, run.ini:1)"});
  EXPECT_EQ(errors_of([] { load_config("", {}, Purpose::train, table()); }),
            Messages{"command line: error: data.path must be given for data.source = text (default, default)"});
  EXPECT_EQ(refused_task("min_length = 9\nmax_length = 8\n"),
            Messages{"run.ini:3: error: data.min_length = 9 exceeds data.max_length = 8 (run.ini:3, run.ini:4)"});
  EXPECT_EQ(refused("[data]\npath = x\n[model]\nvocab_size = 100\n"),
            Messages{"run.ini:4: error: model.vocab_size = 100 is too small for data.tokenizer = bytes, which has 256 "
                     "tokens (run.ini:4, default)"});
}

TEST_F(ConfigResolve, AProbeOfNormalInputsNeedsNoData) {
  EXPECT_EQ(refused("probe.inputs = normal\n", {}, Purpose::probe), Messages{});
  EXPECT_EQ(refused("", {}, Purpose::probe).size(), 1U);
  EXPECT_EQ(refused("probe.inputs = normal\n", {}, Purpose::train).size(), 1U);
}

TEST_F(ConfigResolve, LatentAttentionIsCheckedAgainstTheRest) {
  const Messages found = refused_task("[attention]\nkind = mla\nmla_rope_dims = 3\n[model]\nqk_norm = true\n");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].find("run.ini:4: error: attention.kind = mla needs the size of its latent"), 0U) << found[0];
  EXPECT_EQ(found[1].find("run.ini:7: error: model.qk_norm = true with attention.kind = mla"), 0U) << found[1];
  EXPECT_EQ(found[2].find("run.ini:5: error: attention.mla_rope_dims = 3 must be even"), 0U) << found[2];
  EXPECT_EQ(refused_task("[attention]\nkind = mla\nmla_kv_rank = 16\nmla_rope_dims = 8\n"), Messages{});
}

TEST_F(ConfigResolve, AnEncoderReadsInBothDirectionsUnlessTheContraryIsAsked) {
  const ResolvedConfig encoder = load(std::string(kText) + "[model]\narch = encoder\n");
  EXPECT_EQ(encoder.config.model.arch, Arch::encoder);
  EXPECT_FALSE(encoder.config.attention.causal);
  EXPECT_EQ(encoder.warnings, Messages{});
  EXPECT_FALSE(load(kText, {"model.arch=encoder", "attention.causal=false"}).config.attention.causal);
  EXPECT_FALSE(parse_config_text("model.arch = encoder\n", "x", table()).attention.causal);
  EXPECT_EQ(
      refused(kText, {"model.arch=encoder", "attention.causal=true"}),
      Messages{"command line: error: model.arch = encoder reads in both directions, which attention.causal = true "
               "forbids; leave the key out, or use model.arch = decoder (command line, command line)"});
  EXPECT_EQ(load(kText, {"model.arch=encoder", "attention.window_radius=4", "attention.global_tokens=1"}).warnings,
            Messages{});
  write("resolved.ini", print_config(encoder, false, table()));
  EXPECT_FALSE(load_config("resolved.ini", {}, Purpose::train, table()).config.attention.causal);
}

TEST_F(ConfigResolve, AnEncoderTakesTextAndOneMoreToken) {
  EXPECT_EQ(
      refused_task("[model]\narch = encoder\n"),
      Messages{"run.ini:2: error: model.arch = encoder predicts masked tokens, but data.source = task asks for an "
               "answer after a prompt; use text or tokens, or model.arch = decoder or encoder_decoder (run.ini:2, "
               "run.ini:4)"});
  EXPECT_EQ(refused_text("[model]\narch = encoder\nvocab_size = 256\n"),
            Messages{"run.ini:5: error: model.vocab_size = 256 is too small for data.tokenizer = bytes, which has 256 "
                     "tokens and the mask token (run.ini:5, default)"});
  EXPECT_EQ(refused_text("[model]\narch = encoder\nvocab_size = 257\n"), Messages{});
}

TEST_F(ConfigResolve, AnEncoderDecoderTakesTasksAndHasACausalDecoder) {
  const ResolvedConfig r = load(kTask, {"model.arch=encoder_decoder"});
  EXPECT_EQ(r.config.model.arch, Arch::encoder_decoder);
  EXPECT_TRUE(r.config.attention.causal);
  EXPECT_EQ(r.warnings, Messages{});
  EXPECT_EQ(refused(kText, {"model.arch=encoder_decoder"}),
            Messages{"command line: error: model.arch = encoder_decoder learns from pairs of source and target, which "
                     "data.source = text does not have; use task, or model.arch = decoder or encoder (default, command "
                     "line)"});
  EXPECT_EQ(refused("", {"model.arch=encoder_decoder", "data.source=tokens"}).size(), 1U);
  EXPECT_EQ(
      refused(kTask, {"model.arch=encoder_decoder", "attention.causal=false"}),
      Messages{"command line: error: attention.causal = false lets the decoder of model.arch = encoder_decoder see "
               "the tokens that it has to predict; leave the key out (its encoder reads in both directions as it "
               "is) (command line, command line)"});
  // 20 symbols and the end, where a decoder needs 42 tokens.
  EXPECT_EQ(refused(kTask, {"model.arch=encoder_decoder", "train.context_length=21"}), Messages{});
  EXPECT_EQ(refused(kTask, {"model.arch=encoder_decoder", "train.context_length=20"}),
            Messages{"command line: error: the target of a problem of data.max_length = 20 takes 21 tokens, more than "
                     "train.context_length = 20 (default, command line)"});
  EXPECT_EQ(refused(kTask, {"model.arch=encoder_decoder", "data.task=addition", "train.context_length=40"}),
            Messages{"command line: error: the source of a problem of data.max_length = 20 takes 41 tokens, more than "
                     "train.context_length = 40 (default, command line)"});
}

TEST_F(ConfigResolve, APositionSchemeMustSuitBothHalvesOfAnEncoderDecoder) {
  const std::vector<std::string> t5 = {"model.arch=encoder_decoder", "position.encoding=t5", "position.t5_buckets=3"};
  EXPECT_EQ(refused(kTask, t5),
            Messages{"command line: error: in the encoder, position.t5_buckets = 3 is too few with attention.causal = "
                     "false; at least 4 (command line, default)"});
  // What is said of both is said once.
  EXPECT_EQ(
      load(kTask, {"model.arch=encoder_decoder", "position.encoding=shaw", "position.shaw_clip=200"}).warnings.size(),
      1U);
}

TEST_F(ConfigResolve, WhatThisVersionLacksIsRefused) {
  EXPECT_EQ(
      refused_task("[train]\ndtype = bf16\n"),
      Messages{"run.ini:4: error: train.dtype = bf16 is not available in this version; use f32 or f64 (run.ini:4)"});
}

constexpr const char* kModelText =
    "[model]\nn_layers = 2\nd_model = 18\nn_heads = 3\nn_kv_heads = 3\nd_head = 6\nd_ff = 14\nvocab_size = 12\n"
    "norm_eps = 1e-05\n[position]\nencoding = rope\nmax_length = 14\nrope_dims = 0\nrope_scaling = yarn\n"
    "rope_factor = 4.0\nrope_original_context = 0\nt5_buckets = 32\nshaw_clip = 16\n[attention]\nkind = mha\n";

TEST(ConfigText, HoldsAModelWithoutData) {
  const Config c = parse_config_text(kModelText, "model_rope", table());
  EXPECT_EQ(c.model.vocab_size, 12);
  EXPECT_EQ(c.position.integer("rope_original_context"), 14);
  EXPECT_EQ(c.position.integer("rope_dims"), 6);
  EXPECT_EQ(c.position.text("rope_scaling"), "yarn");
  EXPECT_EQ(c.position.real("rope_factor"), 4.0);
}

TEST(ConfigText, ALearnedTableMayBeShorterThanAnyTrainingContext) {
  EXPECT_EQ(
      parse_config_text("position.encoding = learned\nposition.max_length = 10\n", "x", table()).position.max_length,
      10);
}

TEST(ConfigText, ErrorsNameTheOrigin) {
  EXPECT_EQ(errors_of([] { parse_config_text("[model]\nn_layer = 2\n", "case 7", table()); }),
            Messages{"case 7:2: error: unknown key 'model.n_layer'; did you mean 'model.n_layers'?"});
  EXPECT_EQ(errors_of([] { parse_config_text(std::string(2 << 20, '\n'), "case 7", table()); }),
            Messages{"case 7: error: larger than 1 MiB; not a configuration"});
}

TEST_F(ConfigResolve, PrintsTheOriginOfEachValue) {
  const ResolvedConfig r = load("[data]\npath = \"a #1.txt\"\n[model]\nn_layers = 6\n", {"train.seed=3"});
  const std::string text = print_config(r, true, table());
  for (const char* line :
       {"\nn_layers = 6  # run.ini:4\n", "\nd_head = 32  # default\n", "\nseed = 3  # command line\n",
        "\npath = \"a #1.txt\"  # run.ini:2\n", "\nlengths = 128, 192, 256, 512, 1024  # default\n", "[model]\n",
        "\n\n[position]\nencoding = rope  # default\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(print_config(r, false, table()).find("  # "), std::string::npos);
}

TEST_F(ConfigResolve, PrintsOptionsOfOtherEncodingsOnlyWhereTheyDiffer) {
  const std::string text = print_config(
      load(kTask, {"position.encoding=alibi", "position.rope_theta=500", "position.shaw_clip=16"}), false, table());
  EXPECT_NE(text.find("rope_theta = 500\n"), std::string::npos);
  EXPECT_EQ(text.find("shaw_clip"), std::string::npos);
  EXPECT_EQ(text.find("rope_pairing"), std::string::npos);
  EXPECT_EQ(text.find("rope_original_context"), std::string::npos);
  EXPECT_EQ(text.find("\nrope_dims"), std::string::npos);
}

std::string random_value(const Option& option, std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  if (!option.choices.empty()) return option.choices[random() % option.choices.size()];
  switch (option.type) {
    case OptionType::boolean:
      return below(2) == 0 ? "on" : "false";
    case OptionType::integer:
      return std::to_string(below(300) - 1);
    case OptionType::real:
      return std::to_string(below(1000) / 997.0);
    case OptionType::integer_list:
      return std::to_string(1 + below(50)) + ", " + std::to_string(60 + below(99));
    default:
      break;
  }
  const std::vector<std::string> texts = {"x", "a b", "a #b", "\"q\"", "../x.txt", ";z", "c:\\d", "*.bin"};
  return texts[random() % texts.size()];
}

TEST_F(ConfigResolve, PrintedConfigurationsLoadAgainAsTheyStand) {
  std::mt19937 random(5);
  int loaded = 0;
  for (int i = 0; i < 1500; ++i) {
    std::vector<std::string> overrides = {"data.source=task"};
    for (int n = static_cast<int>(random() % 9); n > 0; --n) {
      const Option& option = table().options()[random() % table().options().size()];
      overrides.push_back(option.key + "=" + random_value(option, random));
    }
    ResolvedConfig first;
    try {
      first = load_config("", overrides, Purpose::train, table());
    } catch (const ConfigError&) {
      continue;
    }
    ++loaded;
    for (const bool with_origins : {true, false}) {
      const std::string text = print_config(first, with_origins, table());
      const ResolvedConfig again = load(text);
      EXPECT_TRUE(differing_keys(first.config, again.config, {}, table()).empty()) << text;
      for (const Option& option : table().options()) {
        EXPECT_EQ(option.get(first.config), option.get(again.config)) << option.key << "\n" << text;
      }
      EXPECT_EQ(print_config(again, false, table()), print_config(first, false, table()));
    }
  }
  EXPECT_GT(loaded, 400);
}

TEST_F(ConfigResolve, DifferingKeysNameBothValues) {
  const Config a = load(kTask).config;
  const Config b =
      load(kTask, {"model.n_layers=6", "train.seed=9", "position.rope_theta=500", "position.shaw_clip=3"}).config;
  const std::vector<std::string> architecture = {"model", "position", "attention"};
  EXPECT_EQ(differing_keys(a, b, architecture, table()),
            (std::vector<KeyDifference>{{"model.n_layers", "model.n_layers: 4 against 6"},
                                        {"position.rope_theta", "position.rope_theta: 10000 against 500"}}));
  EXPECT_EQ(differing_keys(a, b, {}, table()).size(), 3U);
  EXPECT_TRUE(differing_keys(a, a, {}, table()).empty());
}

TEST_F(ConfigResolve, ValuesCanBeAskedForByKey) {
  const Config c = load(kTask).config;
  EXPECT_EQ(config_value(c, "model.n_layers", table()), "4");
  EXPECT_EQ(config_value(c, "optim.schedule", table()), "cosine");
  EXPECT_THROW(config_value(c, "model.n_layer", table()), std::invalid_argument);
}

TEST_F(ConfigResolve, MutatedFilesLoadOrAreRefused) {
  write("base.ini", "[train]\nsteps = 5_000\n");
  const std::string valid =
      "\xEF\xBB\xBFinclude = base.ini\n# note\n[model]\nn_layers = 6 ; six\nd_model = 256\nn_heads = 8\nnorm = "
      "rmsnorm\n"
      "[position]\nencoding = rope\nrope_scaling = yarn\nrope_factor = 4.0\n[data]\nsource = text\npath = \"a #1\"\n"
      "[optim]\nlr = 3e-4\nmin_lr = 1e-5\n[eval]\nlengths = 128, 256..260\n[probe]\nseeds = 1..20\n";
  ASSERT_EQ(refused(valid), Messages{});
  std::mt19937 random(11);
  int loaded = 0;
  int refused_files = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = valid;
    for (int n = 1 + static_cast<int>(random() % 3); n > 0 && !text.empty(); --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 6) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 12);
          break;
        case 2:
          text.insert(at, valid.substr(random() % valid.size(), random() % 20));
          break;
        case 3:
          text.insert(at, 1, "=[]\"\\#;\n.,_-e0"[random() % 15]);
          break;
        case 4: {  // a line less
          const std::size_t start = text.rfind('\n', at) + 1;
          text.erase(start, text.find('\n', start) - start);
          break;
        }
        default:
          text.resize(at + 1);
          break;
      }
    }
    try {
      load(text);
      ++loaded;
    } catch (const ConfigError& error) {
      EXPECT_FALSE(error.messages().empty());
      ++refused_files;
    }
  }
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused_files, 500);
}

}  // namespace
}  // namespace ropewalk
