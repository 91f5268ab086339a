#include "experiments/sweep_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <sstream>

#include "tests/train/config_fixture.h"

namespace ropewalk {
namespace {

using testing::ConfigTest;
using testing::errors_of;
using testing::Messages;
using testing::table;

class Sweep : public ConfigTest {
 protected:
  Sweep() { write("run.ini", "[data]\nsource = task\n[model]\nd_model = 64\nn_heads = 4\n"); }

  static SweepPlan plan(const std::string& text, const std::vector<std::string>& arguments = {}) {
    write("ablation.ini", "include = run.ini\n" + text);
    return plan_sweep("ablation.ini", arguments, table());
  }
  static Messages refused(const std::string& text, const std::vector<std::string>& arguments = {}) {
    return errors_of([&] { plan(text, arguments); });
  }
  /// "variant/seed" of each point.
  static std::vector<std::string> names(const SweepPlan& plan) {
    std::vector<std::string> out;
    for (const SweepPoint& point : plan.points) {
      EXPECT_EQ(point.config.config.train.seed, point.seed);
      out.push_back(point.variant + "/" + std::to_string(point.seed));
    }
    return out;
  }
};

std::string without_comments(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += line.substr(0, line.rfind("  # ")) + "\n";
  return out;
}

TEST_F(Sweep, AllOthersBeginWithTheRunOfTheirSeedOfTheVariantNamed) {
  const SweepPlan p = plan(
      "[train]\ncontext_length = 256\n[sweep]\nseeds = 1..2\nfrom = first\n[grid]\ntrain.steps = 0, 20\n"
      "[variant first]\ntrain.context_length = 64\ntrain.steps = 50\n");
  EXPECT_EQ(names(p), (Messages{"first/1", "first/2", "steps_0/1", "steps_0/2", "steps_20/1", "steps_20/2"}));
  for (const SweepPoint& point : p.points) {
    const bool first = point.variant == "first";
    EXPECT_EQ(point.from, first ? "" : "first-s" + std::to_string(point.seed));
    EXPECT_EQ(point.config.config.train.from, point.from);
    EXPECT_EQ(point.config.config.position.max_length, 64) << "that of the first";
    EXPECT_EQ(point.config.config.train.context_length, first ? 64 : 256);
  }
  EXPECT_EQ(p.points[2].config.origin("train.from").text(), "ablation.ini:6");
  write("again.ini", without_comments(p.text));
  EXPECT_EQ(names(plan_sweep("again.ini", {}, table())), names(p));
}

TEST_F(Sweep, WhatOthersBeginWithMustBeAPointThatFitsThem) {
  EXPECT_EQ(refused("[sweep]\nfrom = frist\n[variant first]\ntrain.steps = 5\n[variant next]\ntrain.steps = 9\n"),
            Messages{"ablation.ini:3: error: sweep.from = frist is no point of this sweep; it has first, next"});
  EXPECT_EQ(refused("[sweep]\nfrom = first\n[variant first]\ntrain.steps = 5\n[variant next]\nmodel.n_layers = 2\n"),
            Messages{"ablation.ini:3: error: point 'next': model.n_layers: 2 against 4; the parameters of sweep.from = "
                     "first are made for the second"});
  EXPECT_EQ(refused("[sweep]\nfrom = first\n[variant first]\ntrain.steps = 5\n[variant next]\ntrain.steps = 9\n"
                    "[exclude]\nrule = train.steps = 5\n"),
            Messages{"ablation.ini:3: error: next-s1 is to begin with first-s1, which a rule of [exclude] leaves out"});
}

TEST_F(Sweep, TheFirstLineOfTheGridIsOutermostAndSeedsInnermost) {
  const SweepPlan p = plan(
      "[sweep]\nname = norm_x_pos\nseeds = 1..2\n[grid]\nmodel.norm_placement = pre, post\nposition.encoding = none, "
      "rope\n");
  EXPECT_EQ(p.name, "norm_x_pos");
  EXPECT_EQ(names(p), (Messages{"pre-none/1", "pre-none/2", "pre-rope/1", "pre-rope/2", "post-none/1", "post-none/2",
                                "post-rope/1", "post-rope/2"}));
  EXPECT_EQ(p.varying_keys, (Messages{"model.norm_placement", "position.encoding"}));
  EXPECT_EQ(p.points[4].config.config.model.norm_placement, NormPlacement::post);
  EXPECT_EQ(p.points[4].config.config.position.encoding, "none");
  EXPECT_EQ(p.points[4].config.config.model.d_model, 64);
}

TEST_F(Sweep, OnlyAKeyThatNoPointReadsIsWarnedOf) {
  const std::string shaw = "[position]\nshaw_clip = 20\n";
  EXPECT_EQ(plan(shaw + "[grid]\nposition.encoding = shaw, rope\n").warnings, Messages{});
  EXPECT_EQ(plan(shaw + "[grid]\nmodel.n_layers = 1, 2\n").warnings,
            Messages{"ablation.ini:3: warning: position.shaw_clip = 20 changes nothing with position.encoding = rope "
                     "(ablation.ini:3, default)"});
}

TEST_F(Sweep, PointsKnowWhereTheirValuesCameFrom) {
  const SweepPlan p = plan("[sweep]\nseeds = 4\n[grid]\nmodel.norm = rmsnorm, layernorm\n");
  EXPECT_EQ(p.points[0].config.origin("model.norm").text(), "ablation.ini:5");
  EXPECT_EQ(p.points[0].config.origin("train.seed").text(), "ablation.ini:3");
  EXPECT_EQ(p.points[0].config.origin("model.d_model").text(), "run.ini:4");
}

TEST_F(Sweep, VariantsAreNamedPointsAfterTheGrid) {
  const SweepPlan p = plan(
      "[grid]\nmodel.norm_placement = pre, post\n[variant post_warm]\nmodel.norm_placement = post\noptim.warmup_steps "
      "= 500\n"
      "[variant base]\n");
  EXPECT_EQ(names(p), (Messages{"pre/1", "post/1", "post_warm/1", "base/1"}));
  EXPECT_EQ(p.points[2].config.config.optim.warmup_steps, 500);
  EXPECT_EQ(p.points[3].config.config.optim.warmup_steps, 100);
  EXPECT_EQ(p.varying_keys, (Messages{"model.norm_placement", "optim.warmup_steps"}));
  EXPECT_EQ(names(plan("[variant a]\nmodel.n_layers = 1\n[variant b]\n")), (Messages{"a/1", "b/1"}));
}

TEST_F(Sweep, WithoutAxesThereIsOnePointASeed) {
  EXPECT_EQ(names(plan("[sweep]\nseeds = 3, 5\n")), (Messages{"base/3", "base/5"}));
  EXPECT_EQ(names(plan("[train]\nseed = 9\n")), Messages{"base/9"});
  EXPECT_EQ(plan("").name, "ablation");
}

TEST_F(Sweep, NumbersAndSwitchesAreNamedAfterTheirKeys) {
  EXPECT_EQ(names(plan("[grid]\noptim.lr = 1e-3, 3e-4\nmodel.qk_norm = on, off\n")),
            (Messages{"lr_0.001-qk_norm_true/1", "lr_0.001-qk_norm_false/1", "lr_0.0003-qk_norm_true/1",
                      "lr_0.0003-qk_norm_false/1"}));
  EXPECT_EQ(names(plan("[grid]\nattention.window_radius = -1, 8\n")),
            (Messages{"window_radius_-1/1", "window_radius_8/1"}));
}

TEST_F(Sweep, OnlyWhatVariesIsInTheName) {
  const SweepPlan p = plan("[grid]\nmodel.n_layers = 2\nmodel.norm = rmsnorm, layernorm\n");
  EXPECT_EQ(names(p), (Messages{"rmsnorm/1", "layernorm/1"}));
  EXPECT_EQ(p.varying_keys, Messages{"model.norm"});
  EXPECT_EQ(p.points[1].config.config.model.n_layers, 2);
}

TEST_F(Sweep, NamesAreUniqueAndFitForDirectories) {
  const SweepPlan p = plan("[grid]\ndata.path = a/x.txt, b/x.txt, c d/.e e\n[variant x]\n");
  EXPECT_EQ(names(p), (Messages{"x-2/1", "x-3/1", "_.e_e/1", "x/1"}));
}

TEST_F(Sweep, LongNamesAreCutAndStayUnique) {
  std::string text = "[grid]\ndata.path = " + std::string(200, 'a') + "1, " + std::string(200, 'a') + "2\n";
  const SweepPlan p = plan(text);
  EXPECT_EQ(p.points[0].variant, std::string(100, 'a'));
  EXPECT_EQ(p.points[1].variant, std::string(100, 'a') + "-2");
}

TEST_F(Sweep, ExcludedPointsAreLeftOutAndNeedNotBeValid) {
  const SweepPlan p = plan(
      "[sweep]\nseeds = 1, 2\n[grid]\nmodel.d_head = 7, 8\nposition.encoding = rope, alibi\n[exclude]\n"
      "rule = model.d_head=7 & position.encoding = rope\nrule = position.encoding=alibi & train.seed=2 & "
      "model.d_head=8.0\n");
  EXPECT_EQ(names(p), (Messages{"d_head_7-alibi/1", "d_head_7-alibi/2", "d_head_8-rope/1", "d_head_8-rope/2",
                                "d_head_8-alibi/1"}));
  EXPECT_EQ(p.warnings, Messages{});
}

TEST_F(Sweep, ARuleComparesDefaultsToo) {
  EXPECT_EQ(names(plan("[grid]\nmodel.n_layers = 1, 2\n[exclude]\nrule = model.activation=gelu & model.n_layers=1\n")),
            Messages{"n_layers_2/1"});
}

TEST_F(Sweep, ARuleThatExcludesNothingIsWarnedOf) {
  EXPECT_EQ(plan("[grid]\nmodel.n_layers = 1, 2\n[exclude]\nrule = model.n_layers=3\n").warnings,
            Messages{"ablation.ini:5: warning: rule 'model.n_layers=3' excludes no point"});
  EXPECT_EQ(refused("[exclude]\nrule = model.activation=gelu\n"),
            Messages{"ablation.ini: error: the rules of [exclude] leave no point"});
}

TEST_F(Sweep, ArgumentsWithListsAreAxes) {
  const SweepPlan p =
      plan_sweep("run.ini", {"position.encoding=rope,alibi", "train.seed=1..3", "model.n_layers=2"}, table());
  EXPECT_EQ(p.name, "run");
  EXPECT_EQ(names(p), (Messages{"rope/1", "rope/2", "rope/3", "alibi/1", "alibi/2", "alibi/3"}));
  EXPECT_EQ(p.points[5].config.config.model.n_layers, 2);
  EXPECT_EQ(p.points[5].config.origin("train.seed").text(), "command line");
}

TEST_F(Sweep, ArgumentsHoldForAllPoints) {
  const std::string text =
      "[sweep]\nseeds = 1..5\n[grid]\nmodel.norm_placement = pre, post\nmodel.n_layers = 1, 2\n[variant "
      "v]\nmodel.n_layers = "
      "3\n";
  const SweepPlan p = plan(text, {"model.n_layers=5", "sweep.seeds=2", "sweep.name=other"});
  EXPECT_EQ(names(p), (Messages{"pre/2", "post/2", "v/2"}));
  for (const SweepPoint& point : p.points) EXPECT_EQ(point.config.config.model.n_layers, 5);
  EXPECT_EQ(p.name, "other");
  EXPECT_EQ(names(plan(text, {"train.seed=7", "model.n_layers=1", "model.norm_placement=pre"})),
            (Messages{"base/7", "v/7"}));
}

TEST_F(Sweep, AnArgumentReplacesALineOfTheGridInItsPlace) {
  EXPECT_EQ(names(plan("[grid]\nmodel.norm_placement = pre, post\nposition.encoding = rope\n",
                       {"model.norm_placement=none,sandwich"})),
            (Messages{"none/1", "sandwich/1"}));
}

TEST_F(Sweep, SeedsComeFromOnePlace) {
  EXPECT_EQ(names(plan("[grid]\ntrain.seed = 1, 4\n")), (Messages{"base/1", "base/4"}));
  EXPECT_EQ(
      refused("[sweep]\nseeds = 1..2\n[grid]\ntrain.seed = 1, 4\n"),
      Messages{"ablation.ini:5: error: train.seed and sweep.seeds (ablation.ini:3) both give the seeds; keep one"});
  EXPECT_EQ(refused("[variant a]\ntrain.seed = 3\n"),
            Messages{"ablation.ini:3: error: train.seed in a variant: every variant runs with the seeds of [sweep]"});
}

TEST_F(Sweep, MistakesInTheSweepItselfComeAllAtOnce) {
  EXPECT_EQ(
      refused("[sweep]\nname = a/b\nseed = 1\nseeds = 1..x\n[grid]\nmodel.norm_placment = pre\nmodel.n_layers = 1, "
              "0\noptim.lr = 1..3\neval.lengths = 1, 2\n[variant ../x]\nmodel.n_layers = 1, 2\n[exclude]\nrole = "
              "a=b\nrule = model.n_layers\nrule = model.n_layers=x\nrule = model.n_layers=1,2\n[model]\nn_layer = 3\n"),
      (Messages{
          "ablation.ini:11: error: [variant ../x]: a variant's name must be 1 to 80 letters, digits, '_', '-', '+' or "
          "'.', and start with none of '-' and '.'",
          "ablation.ini:3: error: sweep.name = a/b: must be 1 to 80 letters, digits, '_', '-', '+' or '.', and start "
          "with none of '-' and '.'",
          "ablation.ini:4: error: unknown key 'sweep.seed'; [sweep] has name, seeds and from",
          "ablation.ini:5: error: sweep.seeds = 1..x: 'x' is not a whole number",
          "ablation.ini:7: error: unknown key 'model.norm_placment'; did you mean 'model.norm_placement'?",
          "ablation.ini:8: error: model.n_layers = 1, 0: must be at least 1 and at most 10000",
          "ablation.ini:9: error: optim.lr = 1..3: '1..3': ranges are for whole numbers only",
          "ablation.ini:10: error: eval.lengths = 1, 2: is a list itself; vary it with [variant NAME] sections",
          "ablation.ini:12: error: model.n_layers = 1, 2: a variant takes one value; lists belong in [grid]",
          "ablation.ini:14: error: [exclude] has lines 'rule = section.key=value & section.key=value', not 'role'",
          "ablation.ini:15: error: expected 'rule = section.key=value & section.key=value', got 'model.n_layers'",
          "ablation.ini:16: error: rule: model.n_layers = x: 'x' is not a whole number",
          "ablation.ini:17: error: rule: model.n_layers = 1,2: a rule compares with one value; write a rule for each",
          "ablation.ini:19: error: unknown key 'model.n_layer'; did you mean 'model.n_layers'?"}));
}

TEST_F(Sweep, EveryPointIsCheckedAndNamed) {
  EXPECT_EQ(
      refused("[grid]\nmodel.n_heads = 4, 5, 6\nposition.encoding = alibi, none\n[variant odd]\nmodel.d_head = 7\n"),
      (Messages{"run.ini:4: error: points 'n_heads_5-alibi', 'n_heads_5-none': model.d_model = 64 is not "
                "divisible by model.n_heads = 5; change one of them or give model.d_head (run.ini:4, ablation.ini:3)",
                "run.ini:4: error: points 'n_heads_6-alibi', 'n_heads_6-none': model.d_model = 64 is not "
                "divisible by model.n_heads = 6; change one of them or give model.d_head (run.ini:4, ablation.ini:3)",
                "ablation.ini:6: error: point 'odd': position.encoding = rope rotates pairs, but the width of a head "
                "is odd: model.d_head = 7 of model.d_model = 64 and model.n_heads = 4; give an even model.d_head or "
                "position.rope_dims (ablation.ini:6, run.ini:4, run.ini:5)"}));
}

TEST_F(Sweep, WhatIsWrongInAllPointsIsSaidOnce) {
  EXPECT_EQ(refused("[grid]\nmodel.norm_placement = pre, post\n[train]\ndtype = bf16\n"),
            Messages{"ablation.ini:5: error: train.dtype = bf16 is not available in this version; use f32 or f64 "
                     "(ablation.ini:5)"});
}

TEST_F(Sweep, OfAFileThatCannotBeReadNothingElseIsSaid) {
  EXPECT_EQ(errors_of([] { plan_sweep("missing.ini", {}, table()); }), Messages{"missing.ini: error: no such file"});
}

TEST_F(Sweep, OfARunFileTheSameIsSaidAsByItself) {
  write("bad.ini", "[data]\nsource = task\n[model]\nd_model = 64\nn_heads = 3\nlayers = 2\n");
  const Messages alone = errors_of([] { load_config("bad.ini", {"optim.lr=x"}, Purpose::train, table()); });
  EXPECT_EQ(alone.size(), 3U);
  Messages planned = errors_of([] { plan_sweep("bad.ini", {"optim.lr=x"}, table()); });
  EXPECT_EQ(planned, alone);
}

TEST_F(Sweep, TooManyPointsAreRefusedBeforeTheyAreMade) {
  EXPECT_EQ(refused("[sweep]\nseeds = 1..2001\n[grid]\nmodel.norm_placement = pre, post, none, sandwich, deepnorm\n"),
            Messages{"ablation.ini: error: the sweep has 10005 points; at most 10000 are planned at once"});
  EXPECT_EQ(
      refused("[sweep]\nseeds = 1..9000\n[grid]\nmodel.d_ff = 1..9000\nmodel.n_layers = 1..9000\ntrain.batch_size = "
              "1..9000\ntrain.steps = 1..9000\noptim.warmup_steps = 1..9000\n"),
      Messages{"ablation.ini: error: the sweep has too many points; at most 10000 are planned at once"});
}

TEST_F(Sweep, TheResolvedSweepPlansTheSamePoints) {
  const SweepPlan p = plan(
      "[sweep]\nseeds = 2..4\n[grid]\nmodel.d_model = 32, 64\nposition.encoding = rope, t5\n[variant "
      "a.b]\nmodel.n_kv_heads = "
      "2\noptim.lr = 3e-4\n[exclude]\nrule = model.d_model=32 & position.encoding=t5\n",
      {"optim.lr=0.01", "data.path=\"x #1\"", "data.max_length=9"});
  write("again/sweep.ini", p.text);
  const SweepPlan again = plan_sweep("again/sweep.ini", {}, table());
  EXPECT_EQ(again.name, p.name);
  EXPECT_EQ(names(again), names(p));
  EXPECT_EQ(again.varying_keys, p.varying_keys);
  for (std::size_t i = 0; i < p.points.size(); ++i) {
    EXPECT_TRUE(differing_keys(p.points[i].config.config, again.points[i].config.config, {}, table()).empty());
  }
  write("third/sweep.ini", again.text);
  EXPECT_EQ(without_comments(plan_sweep("third/sweep.ini", {}, table()).text), without_comments(p.text));
}

TEST_F(Sweep, TheResolvedSweepSaysWhereItsValuesCameFrom) {
  const SweepPlan p = plan(
      "[sweep]\nseeds = 2\n[grid]\nmodel.norm = rmsnorm, layernorm\n[variant v]\noptim.lr = 3e-4\n[exclude]\n"
      "rule = model.norm=rmsnorm\n",
      {"model.n_layers=3"});
  EXPECT_EQ(p.text,
            "# Keys that do not stand here are at their defaults.\n"
            "model.n_layers = 3  # command line\nmodel.d_model = 64  # run.ini:4\nmodel.n_heads = 4  # run.ini:5\n"
            "data.source = task  # run.ini:2\n"
            "\n[sweep]\nname = ablation  # default\nseeds = 2  # ablation.ini:3\n"
            "\n[grid]\nmodel.norm = rmsnorm, layernorm  # ablation.ini:5\n"
            "\n[variant v]\noptim.lr = 3e-4  # ablation.ini:7\n"
            "\n[exclude]\nrule = model.norm=rmsnorm  # ablation.ini:9\n");
}

TEST_F(Sweep, ARunFileIsNoSweepUntilSomethingMakesItOne) {
  EXPECT_FALSE(plan("[train]\nseed = 9\n").is_sweep);
  EXPECT_FALSE(plan("", {"model.n_layers=3", "train.seed=2"}).is_sweep);
  for (const char* text :
       {"[sweep]\nname = s\n", "[sweep]\nseeds = 3\n", "[grid]\nmodel.n_layers = 2\n", "[variant v]\n"}) {
    EXPECT_TRUE(plan(text).is_sweep) << text;
  }
  EXPECT_TRUE(plan("", {"train.seed=1..2"}).is_sweep);
}

TEST_F(Sweep, FilesMayRefineAnIncludedSweep) {
  write("first.ini",
        "include = run.ini\n[sweep]\nseeds = 1..5\n[grid]\nmodel.norm_placement = pre, post\n[variant v]\n"
        "model.n_layers = 1\n");
  write("second.ini",
        "include = first.ini\n[sweep]\nseeds = 8\n[grid]\nmodel.norm_placement = none\n[variant v]\n"
        "model.n_layers = 2\n");
  const SweepPlan p = plan_sweep("second.ini", {}, table());
  EXPECT_EQ(names(p), (Messages{"base/8", "v/8"}));
  EXPECT_EQ(p.points[1].config.config.model.n_layers, 2);
}

TEST_F(Sweep, MutatedFilesPlanOrAreRefused) {
  const std::string valid =
      "include = run.ini\n[sweep]\nname = s\nseeds = 1..3\n[grid]\nmodel.norm_placement = pre, post\nmodel.n_layers = "
      "1..2\n"
      "[variant warm]\noptim.warmup_steps = 20\n[variant]\n[exclude]\nrule = model.norm_placement=post & "
      "model.n_layers=2\n";
  std::mt19937 random(3);
  int planned = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string text = valid;
    text.erase(text.find("[variant]\n"), i % 8 == 0 ? 0 : 10);
    for (int n = static_cast<int>(random() % 3); n > 0 && !text.empty(); --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 12);
          break;
        case 2:
          text.insert(at, valid.substr(random() % valid.size(), random() % 20));
          break;
        default:
          text.insert(at, 1, "=[]\"\\#;\n.,_&e0"[random() % 15]);
          break;
      }
    }
    write("sweep.ini", text);
    try {
      const SweepPlan p = plan_sweep("sweep.ini", {}, table());
      EXPECT_FALSE(p.points.empty());
      std::set<std::string> unique;
      for (const SweepPoint& point : p.points) unique.insert(point.variant + "/" + std::to_string(point.seed));
      EXPECT_EQ(unique.size(), p.points.size());
      ++planned;
    } catch (const ConfigError& error) {
      EXPECT_FALSE(error.messages().empty());
    }
  }
  EXPECT_GT(planned, 100);
}

}  // namespace
}  // namespace ropewalk
