// Weights as other programs name them: out of a run and into one.

#include "train/weights_file.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "layers/indexer.h"
#include "tests/layers/small_model.h"
#include "train/run_directory.h"
#include "train/run_state.h"
#include "train/trained_run.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Words kGpt2 = {"position.encoding=learned", "position.max_length=24", "model.d_ff=40"};
const Words kLlama = {"model.activation=swiglu", "model.norm=rmsnorm",     "model.bias=false",
                      "model.d_ff=40",           "position.max_length=24", "position.rope_pairing=split_half"};

/// A tensor of a file that a test makes.
struct Made {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string data;
};

/// Writes any types, as other programs do.
void write_made(const std::string& path, const std::vector<Made>& tensors, const nlohmann::json& metadata = nullptr) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.is_null()) header["__metadata__"] = metadata;
  std::string data;
  for (const Made& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  write_text(path, std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data);
}

std::vector<Made> read_made(const std::string& path) {
  const SafetensorsFile file = read_safetensors(path);
  std::vector<Made> out;
  for (const StoredTensor& t : file.tensors()) {
    out.push_back({t.name, t.dtype, t.shape, {reinterpret_cast<const char*>(t.data.data()), t.data.size()}});
  }
  return out;
}

class WeightsFile : public TinyTraining {
 protected:
  WeightsFile() { ::testing::internal::CaptureStderr(); }
  ~WeightsFile() override { ::testing::internal::GetCapturedStderr(); }

  std::string file(const std::string& name = "w.safetensors") const { return directory_ / name; }

  void train(const Words& overrides, const std::string& name = "run") const {
    train_run(request(Words{"optim.warmup_steps=0"} + overrides, name));
  }
  void train_from(const std::string& from, const Words& overrides, const std::string& name = "next") const {
    train(Words{"train.from=" + from} + overrides, name);
  }

  /// A run of one step whose newest checkpoint, of step 9, holds values that no training gives.
  void make_run(const Words& overrides, const std::string& name = "run") const {
    train(Words{"train.steps=1"} + overrides, name);
    const Config config = load_config(config_in(run_path(name)), {}).config;
    const TrainedModel trained = load_trained_model(run_path(name), {});
    testing::randomize(trained.model->parameters());
    std::vector<TensorToSave> tensors;
    for (int32_t i = 0; i < static_cast<int32_t>(trained.model->parameters().size()); ++i) {
      const Tensor value = trained.model->parameters().value(i);
      std::vector<int64_t> shape;
      for (int axis = 0; axis < value.shape.rank(); ++axis) shape.push_back(value.shape[axis]);
      tensors.push_back(
          {trained.model->parameters()[i].name, value.dtype == DType::f32 ? "F32" : "F64", shape, value.bytes});
    }
    write_checkpoint(checkpoints_in(run_path(name)), 9, tensors, {{"config", print_config({.config = config}, false)}},
                     2);
  }

  ExportedWeights exported(WeightNames names, const std::string& target, const Words& overrides = {}) const {
    return export_weights(run_path(), overrides, names, target);
  }

  /// Do the parameters of the newest checkpoints agree in every bit?
  ::testing::AssertionResult same_parameters(const std::string& a, const std::string& b) const {
    const Checkpoint x = require_checkpoint(run_path(a)), y = require_checkpoint(run_path(b));
    int compared = 0;
    for (const StoredTensor& tensor : x.file.tensors()) {
      if (tensor.name.starts_with("optimizer.")) continue;
      const StoredTensor& other = y.file.tensor(tensor.name);
      ++compared;
      if (tensor.dtype != other.dtype || tensor.shape != other.shape ||
          !std::equal(tensor.data.begin(), tensor.data.end(), other.data.begin(), other.data.end())) {
        return ::testing::AssertionFailure() << tensor.name;
      }
    }
    return compared > 5 ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << compared << " tensors";
  }

  /// What is said when a run would begin with the file; nothing may be left of it.
  template <typename E>
  std::string refused(const Words& overrides, const std::string& from = "w.safetensors") const {
    const std::string message = message_of<E>([&] { train_from(file(from), overrides); });
    EXPECT_FALSE(fs::exists(run_path("next")));
    return message;
  }
};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The logits of a run, and the script that computes them from what was exported. Its exit code; 77: no numpy.
int compare_logits(const std::string& run, const Words& overrides, const std::string& directory, double tolerance) {
  const TrainedModel trained = load_trained_model(run, overrides);
  const int64_t sequences = 2, length = 24;
  std::vector<int32_t> tokens;
  std::vector<int64_t> wide;
  for (int64_t i = 0; i < sequences * length; ++i) {
    tokens.push_back(static_cast<int32_t>((i * 37 + i * i) % trained.config.model.vocab_size));
    wide.push_back(tokens.back());
  }
  trained.model->prepare(length);
  const Tensor logits = testing::logits_of(*trained.model, tokens, sequences);
  write_safetensors(directory + "/logits.safetensors",
                    {{"tokens", "I64", {sequences, length}, wide.data()},
                     {"logits",
                      logits.dtype == DType::f32 ? "F32" : "F64",
                      {sequences, length, trained.config.model.vocab_size},
                      logits.bytes}},
                    {});
  const std::string python = access("/usr/bin/python3", X_OK) == 0 ? "/usr/bin/python3" : "python3";
  const int status =
      std::system((python + " " ROPEWALK_SOURCE_DIR "/tests/train/hugging_face_reference.py '" + directory + "' '" +
                   directory + "/logits.safetensors' " + fmt::format("{}", tolerance) + " 2>&1")
                      .c_str());
  if (!WIFEXITED(status)) return -1;
  return WEXITSTATUS(status) == 127 ? 77 : WEXITSTATUS(status);
}

struct Theirs {
  const char* name;
  WeightNames names;
  Words training;      ///< beside kGpt2 or kLlama
  Words scaling = {};  ///< overrides of the export
};

std::ostream& operator<<(std::ostream& out, const Theirs& theirs) {
  return out << theirs.name;
}

const std::vector<Theirs> kTheirs = {
    {"gpt2", WeightNames::gpt2, {"model.activation=gelu_tanh"}},
    {"gpt2_erf_untied", WeightNames::gpt2, {"model.tie_embeddings=false", "model.norm_eps=1e-3"}},
    {"gpt2_f64", WeightNames::gpt2, {"train.dtype=f64", "model.activation=relu", "attention.scale_scores=false"}},
    {"llama", WeightNames::llama, {}},
    {"llama_f64", WeightNames::llama, {"train.dtype=f64", "position.rope_theta=500"}},
    {"llama_interleaved", WeightNames::llama, {"position.rope_pairing=interleaved", "train.dtype=f64"}},
    {"llama_grouped",
     WeightNames::llama,
     {"model.n_heads=4", "model.n_kv_heads=2", "model.d_head=6", "model.bias=true", "model.activation=geglu",
      "model.tie_embeddings=false", "position.rope_pairing=interleaved"}},
    {"llama_linear",
     WeightNames::llama,
     {"train.dtype=f64"},
     {"position.rope_scaling=linear", "position.rope_factor=3"}},
    {"llama_ntk", WeightNames::llama, {"train.dtype=f64"}, {"position.rope_scaling=ntk", "position.rope_factor=3"}},
    {"llama_dynamic",
     WeightNames::llama,
     {"train.dtype=f64"},
     {"position.rope_scaling=dynamic_ntk", "position.rope_factor=2", "position.rope_original_context=10"}},
    {"llama_yarn",
     WeightNames::llama,
     {"train.dtype=f64", "model.d_head=16", "position.rope_theta=50"},
     {"position.rope_scaling=yarn", "position.rope_factor=2.5", "position.yarn_beta_fast=3"}},
    {"llama_yarn_factor",
     WeightNames::llama,
     {"train.dtype=f64"},
     {"position.rope_scaling=yarn", "position.rope_factor=2", "position.rope_attention_factor=1.25",
      "position.yarn_beta_fast=2"}},
    {"llama_llama3",
     WeightNames::llama,
     {"train.dtype=f64", "model.d_head=16", "position.rope_theta=50"},
     {"position.rope_scaling=llama3", "position.rope_factor=4"}},
};

class TheirModel : public WeightsFile, public ::testing::WithParamInterface<Theirs> {
 protected:
  Words training() const { return (GetParam().names == WeightNames::gpt2 ? kGpt2 : kLlama) + GetParam().training; }
};

TEST_P(TheirModel, GivesTheLogitsOfThePublishedArchitecture) {
  make_run(training());
  exported(GetParam().names, file("out"), GetParam().scaling);
  const bool f64 = config(training()).train.dtype == "f64";
  const int code = compare_logits(run_path(), GetParam().scaling, file("out"), f64 ? 1e-12 : 1e-4);
  if (code == 77) FAIL() << "python3 with numpy is not installed; ./dev setup does it";
  EXPECT_EQ(code, 0);
}

TEST_P(TheirModel, ComesBackBitForBit) {
  make_run(training());
  exported(GetParam().names, file(), GetParam().scaling);
  train_from(file(), training() + Words{"train.steps=0"});
  EXPECT_TRUE(same_parameters("run", "next"));
}

INSTANTIATE_TEST_SUITE_P(Theirs, TheirModel, ::testing::ValuesIn(kTheirs),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(WeightsFile, OwnNamesHoldAnyArchitectureAndWhatARunNeeds) {
  const Words odd = {"model.norm_placement=sandwich", "model.qk_norm=true", "position.encoding=t5",
                     "data.tokenizer=chars", "train.steps=3"};
  train(odd);
  const ExportedWeights out = exported(WeightNames::ropewalk, file());
  EXPECT_EQ(out.files, Words{file()});
  for (const Made& tensor : read_made(file())) EXPECT_FALSE(tensor.name.starts_with("optimizer.")) << tensor.name;
  const WeightsHeader header = read_weights_header(file());
  EXPECT_EQ(header.step, 3);
  EXPECT_EQ(header.config->position.encoding, "t5");
  EXPECT_EQ(header.vocabulary->chars, load_tokenizer(run_path() + "/vocabulary.txt").chars);

  fs::rename(run_path(), run_path("elsewhere"));
  write_text(run_path("other.txt"), sentences(9000).substr(2000));
  train_from(file(), odd + Words{"train.steps=0", "data.path=" + run_path("other.txt")});
  EXPECT_TRUE(same_parameters("elsewhere", "next"));
  EXPECT_EQ(read_text(run_path("next") + "/vocabulary.txt"), read_text(run_path("elsewhere") + "/vocabulary.txt"));
  const nlohmann::json summary = nlohmann::json::parse(read_text(run_path("next") + "/summary.json"));
  EXPECT_EQ(summary.at("from"), (nlohmann::json{{"run", file()}, {"step", 3}}));
}

TEST_F(WeightsFile, ACheckpointItselfIsAFileOfWeights) {
  train({"train.steps=4"});
  train_from(checkpoint_path(checkpoints_in(run_path()), 4), {"train.steps=0"});
  EXPECT_TRUE(same_parameters("run", "next"));
}

TEST_F(WeightsFile, ARunThatBeganWithAFileGoesOnWithoutIt) {
  train({"train.steps=4"});
  exported(WeightNames::ropewalk, file());
  train_from(file(), {"train.steps=6"}, "whole");
  train_from(file(), {"train.steps=2"});
  fs::remove(file());
  const TrainRequest rest{.config = load_config(config_in(run_path("next")), {"train.steps=6"}),
                          .directory = run_path("next"),
                          .resume = true};
  EXPECT_EQ(train_run(rest).status, LogStatus::finished);
  EXPECT_EQ(require_checkpoint(run_path("next")).step, 6);
}

TEST_F(WeightsFile, PositionsKeepTheLengthThatAFileSays) {
  train({"train.steps=1"});
  exported(WeightNames::ropewalk, file());
  EXPECT_EQ(config({"train.from=" + file(), "train.context_length=32"}).position.max_length, 16);
  write_made(file("plain.safetensors"), read_made(file()));
  EXPECT_EQ(config({"train.from=" + file("plain.safetensors"), "train.context_length=32"}).position.max_length, 32);
}

TEST_F(WeightsFile, WhatFixesTheParametersMustAgreeWithWhatAFileSays) {
  train({"train.steps=1"});
  exported(WeightNames::ropewalk, file());
  // No shape tells the pairing.
  EXPECT_TRUE(holds(refused<ConfigError>({"position.rope_pairing=split_half"}),
                    "position.rope_pairing: split_half against interleaved"));
  // Another precision is converted to.
  train_from(file(), {"train.dtype=f64", "train.steps=0"});
  EXPECT_EQ(require_checkpoint(run_path("next")).file.tensor("final_norm.weight").dtype, "F64");
}

TEST_F(WeightsFile, FilesOfOtherProgramsMayLackThePrefixAndHoldBuffersAndATiedHead) {
  make_run(kGpt2);
  exported(WeightNames::gpt2, file());
  std::vector<Made> tensors = read_made(file());
  std::string head;
  for (Made& tensor : tensors) {
    ASSERT_TRUE(tensor.name.starts_with("transformer.")) << tensor.name;
    tensor.name = tensor.name.substr(12);
    if (tensor.name == "wte.weight") head = tensor.data;
  }
  tensors.push_back({"h.0.attn.bias", "BOOL", {1, 1, 4, 4}, std::string(16, '\1')});
  tensors.push_back({"h.1.attn.masked_bias", "F32", {}, std::string(4, '\0')});
  tensors.push_back({"lm_head.weight", "F32", {256, 16}, head});
  write_made(file("plain.safetensors"), tensors);
  train_from(file("plain.safetensors"), kGpt2 + Words{"train.steps=0"});
  EXPECT_TRUE(same_parameters("run", "next"));
  fs::remove_all(run_path("next"));

  tensors.back().data[5] ^= 1;
  write_made(file("untied.safetensors"), tensors);
  EXPECT_TRUE(holds(refused<CheckpointError>(kGpt2, "untied.safetensors"),
                    "lm_head.weight differs from wte.weight; give model.tie_embeddings = false"));
}

/// The 16 bits of a value that they can hold.
std::string half_bits(float value, bool brain) {
  const auto bits = std::bit_cast<uint32_t>(value);
  uint16_t half = static_cast<uint16_t>(bits >> 16);
  if (!brain) {
    const int exponent = static_cast<int>((bits >> 23) & 255) - 127 + 15;
    half =
        static_cast<uint16_t>(((bits >> 31) << 15) | (static_cast<uint32_t>(exponent) << 10) | ((bits >> 13) & 1023));
    if ((bits & 0x7FFFFFFF) == 0) half = static_cast<uint16_t>((bits >> 31) << 15);
  }
  return {reinterpret_cast<const char*>(&half), 2};
}

TEST_F(WeightsFile, ASparseModelBeginsWithADenseFileAndDrawsItsIndexers) {
  const Words sparse = {"attention.pattern=top_k", "attention.top_k=4", "attention.index_dim=8", "train.steps=0"};
  make_run(kLlama);
  for (const WeightNames names : {WeightNames::ropewalk, WeightNames::llama}) {
    SCOPED_TRACE(display_name(names));
    exported(names, file());
    train_from(file(), kLlama + sparse);
    EXPECT_TRUE(same_parameters("run", "next"));
    double squares = 0;
    for (const Made& tensor : read_made(checkpoint_path(checkpoints_in(run_path("next")), 0))) {
      if (!is_index_parameter(tensor.name) || tensor.name.starts_with("optimizer.")) continue;
      for (std::size_t i = 0; i < tensor.data.size(); i += 4) {
        float value = 0;
        std::memcpy(&value, tensor.data.data() + i, 4);
        squares += value * value;
      }
    }
    EXPECT_GT(squares, 0);
    fs::remove_all(run_path("next"));
  }
}

TEST_F(WeightsFile, HalfPrecisionIsConverted) {
  make_run(kLlama);
  exported(WeightNames::llama, file());
  for (const bool brain : {false, true}) {
    SCOPED_TRACE(brain ? "BF16" : "F16");
    std::vector<Made> tensors = read_made(file());
    std::map<std::string, std::vector<float>> expected;
    for (Made& tensor : tensors) {
      std::string halves;
      for (std::size_t i = 0; i < tensor.data.size(); i += 4) {
        const auto k = static_cast<int>(i / 4);
        const float value = std::ldexp(static_cast<float>(k % 128 - 64), k % 9 - 10);  // seven bits: both types hold it
        expected[tensor.name].push_back(value);
        halves += half_bits(value, brain);
      }
      tensor.data = halves;
      tensor.dtype = brain ? "BF16" : "F16";
    }
    write_made(file("half.safetensors"), tensors);
    fs::remove_all(run_path("next"));
    train_from(file("half.safetensors"), kLlama + Words{"train.steps=0"});
    const Checkpoint begun = require_checkpoint(run_path("next"));
    for (const auto& [theirs, ours] : {std::pair{"model.norm.weight", "final_norm.weight"},
                                       std::pair{"model.layers.1.mlp.down_proj.weight", "blocks.1.ffn.down.weight"}}) {
      const StoredTensor& got = begun.file.tensor(ours);
      const std::vector<float>& values = expected.at(theirs);
      ASSERT_EQ(got.data.size(), values.size() * 4);
      EXPECT_EQ(std::memcmp(got.data.data(), values.data(), got.data.size()), 0) << ours;
    }
  }
}

TEST_F(WeightsFile, TheExtremesOfF16AreRead) {
  train({"train.steps=1"});
  exported(WeightNames::ropewalk, file());
  std::vector<Made> tensors = read_made(file());
  const std::vector<std::pair<uint16_t, float>> cases = {{0x0001, 0x1p-24F}, {0x03FF, 0x3FFp-24F}, {0x0400, 0x1p-14F},
                                                         {0x7BFF, 65504.0F}, {0x8000, -0.0F},      {0xC000, -2.0F}};
  for (Made& tensor : tensors) {
    if (tensor.name != "final_norm.weight") continue;
    tensor.dtype = "F16";
    tensor.data.clear();
    for (std::size_t i = 0; i < 16; ++i) {
      tensor.data.append(reinterpret_cast<const char*>(&cases[i % cases.size()].first), 2);
    }
  }
  write_made(file(), tensors);
  train_from(file(), {"train.steps=0"});
  const Checkpoint begun = require_checkpoint(run_path("next"));
  for (std::size_t i = 0; i < 16; ++i) {
    float got = 0;
    std::memcpy(&got, begun.file.tensor("final_norm.weight").data.data() + 4 * i, 4);
    EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(cases[i % cases.size()].second)) << i;
  }
}

TEST_F(WeightsFile, EveryTensorThatDoesNotFitIsNamedInOneError) {
  make_run(kGpt2);
  exported(WeightNames::gpt2, file());
  std::vector<Made> tensors = read_made(file());
  std::erase_if(tensors,
                [](const Made& t) { return t.name.ends_with("h.0.ln_1.bias") || t.name.ends_with("ln_f.bias"); });
  for (Made& tensor : tensors) {
    if (tensor.name.ends_with("h.1.mlp.c_fc.weight")) std::swap(tensor.shape[0], tensor.shape[1]);
    if (tensor.name.ends_with("h.0.ln_2.weight")) tensor.dtype = "I32";
  }
  tensors.push_back({"transformer.h.2.ln_1.bias", "F32", {1}, std::string(4, '\0')});
  tensors.push_back({"h.1.ln_1.bias", "F32", {16}, std::string(64, '\0')});
  write_made(file(), tensors);
  EXPECT_EQ(refused<CheckpointError>(kGpt2),
            file() +
                ": its tensors, by the names of GPT-2, are not those of the model\n"
                "  missing: h.0.ln_1.bias; ln_f.bias\n"
                "  not of the model: h.1.ln_1.bias; transformer.h.2.ln_1.bias\n"
                "  of another shape: h.1.mlp.c_fc.weight [40, 16], the model has [16, 40]\n"
                "  of a type other than F16, BF16, F32 and F64: h.0.ln_2.weight I32");
}

TEST_F(WeightsFile, EveryKeyThatIsNotTheirsIsNamedInOneError) {
  train(Words{"model.norm_placement=post", "model.n_kv_heads=1", "model.d_head=10", "model.scale_embeddings=true",
              "attention.window_radius=4", "model.dropout=0.1", "train.steps=1"});
  EXPECT_EQ(message_of<ConfigError>([&] { exported(WeightNames::gpt2, file()); }),
            run_path() +
                ": error: the model is not of GPT-2's architecture: model.n_kv_heads = 1 (GPT-2: 2), model.d_head = 10 "
                "(GPT-2: 8), model.norm_placement = post (GPT-2: pre), model.scale_embeddings = true (GPT-2: false), "
                "position.encoding = rope (GPT-2: learned), attention.window_radius = 4 (GPT-2: -1); --names ropewalk "
                "exports it as it is\n1 error; nothing was started");
  EXPECT_FALSE(fs::exists(file()));
  const std::string llama = message_of<ConfigError>([&] { exported(WeightNames::llama, file()); });
  for (const char* key : {"model.activation = gelu (Llama: swiglu)", "model.norm = layernorm (Llama: rmsnorm)",
                          "model.norm_placement = post", "model.scale_embeddings = true", "attention.window_radius"}) {
    EXPECT_TRUE(holds(llama, key)) << llama;
  }
  EXPECT_FALSE(holds(llama, "position.")) << llama;
  EXPECT_FALSE(holds(llama, "n_kv_heads")) << llama;
}

TEST_F(WeightsFile, RotationsThatTransformersDoesNotHaveAreNamed) {
  train(kLlama + Words{"train.steps=1", "position.rope_dims=4"});
  const auto conflicts = [&](const Words& overrides) {
    return message_of<ConfigError>([&] { exported(WeightNames::llama, file(), overrides); });
  };
  EXPECT_TRUE(holds(conflicts({}), "position.rope_dims = 4 (Llama: 8)"));
  EXPECT_TRUE(holds(conflicts({"position.rope_zero_low=0.5"}), "position.rope_zero_low = 0.5 (Llama: 0)"));
  EXPECT_TRUE(holds(conflicts({"position.rope_attention_factor=2"}), "position.rope_attention_factor = 2 (Llama: 0)"));
  const Words yarn = {"position.rope_scaling=yarn", "position.rope_factor=2"};
  EXPECT_TRUE(holds(conflicts(yarn + Words{"position.yarn_ramp=paper"}), "position.yarn_ramp = paper (Llama: code)"));
  EXPECT_TRUE(holds(conflicts(yarn + Words{"position.rope_original_context=4", "position.rope_theta=2"}),
                    "position.rope_original_context = 4"));
}

TEST_F(WeightsFile, AModelOfAnotherArchitectureIsRefusedByKeyWhenItBegins) {
  make_run(kGpt2);
  exported(WeightNames::gpt2, file("w.safetensors"));
  std::vector<Made> tensors = read_made(file());
  write_made(file(), tensors);  // without what the run was
  const std::string message = refused<ConfigError>({"model.norm=rmsnorm"});
  EXPECT_TRUE(holds(message, file() + ": error: the model is not of GPT-2's architecture: model.norm = rmsnorm "
                                      "(GPT-2: layernorm), position.encoding = rope (GPT-2: learned)"))
      << message;
}

TEST_F(WeightsFile, FilesThatHoldNoModelAreRefused) {
  EXPECT_TRUE(holds(refused<ConfigError>({}, "absent.safetensors"), "is no file of weights"));
  write_made(file(), {{"conv1.weight", "F32", {1}, std::string(4, '\0')}});
  EXPECT_TRUE(holds(refused<CheckpointError>({}), "its tensors are called conv1.weight, ..."));
  write_made(file(), {});
  EXPECT_TRUE(holds(refused<CheckpointError>({}), "its tensors are none"));
  write_text(file(), "no tensors at all");
  EXPECT_TRUE(holds(refused<ConfigError>({}), "its header claims"));
  write_text(file(), std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F{}", 10));
  EXPECT_TRUE(holds(refused<ConfigError>({}), "its header claims 9223372036854775807 bytes"));
  write_made(file(), {{"wte.weight", "F32", {int64_t{1} << 40, int64_t{1} << 40}, ""}});
  EXPECT_TRUE(holds(refused<CheckpointError>({}), "which is not what its shape asks for"));
  write_made(file(), {{"wte.weight", "F32", {1}, std::string(4, '\0')}}, {{"ropewalk_vocabulary", "nonsense"}});
  EXPECT_TRUE(holds(refused<ConfigError>({}), "not a vocabulary"));
  write_made(file(), {{"wte.weight", "F32", {1}, std::string(4, '\0')}},
             {{"ropewalk_vocabulary", "ropewalk-vocabulary 1 ids 2147483647\n"}});
  EXPECT_TRUE(holds(refused<ConfigError>({}), "its ropewalk_vocabulary is no list of characters"));
}

TEST_F(WeightsFile, ConfigurationAndTokensAreTold) {
  train(kLlama + Words{"train.steps=1", "data.tokenizer=chars"});
  const ExportedWeights out = exported(WeightNames::llama, file("deep/er"));
  EXPECT_EQ(out.files, (Words{file("deep/er/model.safetensors"), file("deep/er/config.json")}));
  EXPECT_TRUE(holds(out.notes.at(0), "ropewalk_vocabulary")) << out.notes.at(0);
  const nlohmann::json config = nlohmann::json::parse(read_text(file("deep/er/config.json")));
  EXPECT_EQ(config.at("num_key_value_heads"), 2);
  EXPECT_EQ(config.at("max_position_embeddings"), 24);
  EXPECT_EQ(config.at("vocab_size"),
            static_cast<int64_t>(read_weights_header(file("deep/er/model.safetensors")).vocabulary->chars.size()));
  EXPECT_TRUE(config.at("rope_scaling").is_null());
}

TEST_F(WeightsFile, KeysThatChangeNoWeightsAreRefused) {
  train({"train.steps=1"});
  EXPECT_TRUE(holds(message_of<ConfigError>([&] { exported(WeightNames::ropewalk, file(), {"optim.lr=1"}); }),
                    "optim.lr is not a part of what is exported"));
  EXPECT_TRUE(holds(message_of<ConfigError>([&] { exported(WeightNames::ropewalk, file(), {"model.n_layers=1"}); }),
                    "model.n_layers: 1 against 2"));
}

}  // namespace
}  // namespace ropewalk
