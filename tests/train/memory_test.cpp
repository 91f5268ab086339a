#include "train/memory.h"

#include <sys/resource.h>

#include "framework/error.h"
#include "layers/positions/options.h"
#include "train/probe_run.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

using Memory = TinyTraining;

int64_t peak_kilobytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST_F(Memory, AbsurdSizesAreRefusedBeforeAnythingIsAllocated) {
  const std::vector<std::vector<std::string>> cases = {
      {"model.d_model=1000000", "model.n_heads=1000"},
      {"model.n_layers=10000", "model.d_model=8192"},
      {"model.d_ff=16000000", "model.d_model=65536"},
      {"train.batch_size=16000000", "train.accumulate=1000000"},
      {"train.context_length=16777216", "train.batch_size=1000000", "eval.lengths=16"},
      {"model.vocab_size=268435456", "model.d_model=65536"},
      {"train.threads=1024", "model.d_model=32768"},
      {"position.encoding=learned", "position.max_length=16777216", "model.d_model=131072"},
      {"model.arch=encoder_decoder", "data.source=task", "data.task=copy", "data.max_length=16000000",
       "train.context_length=16777216", "train.batch_size=1000000", "eval.lengths=16"}};
  for (const std::vector<std::string>& overrides : cases) {
    SCOPED_TRACE(overrides.front());
    const Config c = config(overrides);
    const int64_t before = peak_kilobytes();
    const std::string message = message_of<Error>([&] { set_up(c); });
    EXPECT_NE(message.find("this run needs about "), std::string::npos) << message;
    EXPECT_NE(message.find(" bytes"), std::string::npos) << message;
    EXPECT_NE(message.find("the machine has"), std::string::npos) << message;
    EXPECT_LT(peak_kilobytes() - before, 64 * 1024);
  }
}

TEST_F(Memory, ParametersAreCountedForEveryPositionScheme) {
  for (const PositionSchemeInfo& scheme : position_scheme_infos()) {
    // Without biases and norms, which the count leaves out.
    RunSetup setup = set_up(config({"position.encoding=" + scheme.name, "model.bias=false", "model.norm_placement=none",
                                    "model.activation=swiglu", "model.n_kv_heads=1"}));
    EXPECT_EQ(count_parameters(architecture_of(setup.config)),
              static_cast<double>(setup.model->parameters().elements()))
        << scheme.name;
    ArchitectureConfig pairs = architecture_of(setup.config);
    pairs.model.arch = Arch::encoder_decoder;
    EXPECT_EQ(count_parameters(pairs), static_cast<double>(Transformer(pairs, DType::f32).parameters().elements()))
        << scheme.name;
  }
}

TEST_F(Memory, AProbeOfAnAbsurdBatchIsRefused) {
  const ResolvedConfig c = resolved(
      {"probe.inputs=normal", "model.vocab_size=256", "train.batch_size=16000000", "train.context_length=4096"});
  const int64_t before = peak_kilobytes();
  const std::string message = message_of<Error>([&] { probe_run(c, "probe", run_path(), "ropewalk probe"); });
  EXPECT_NE(message.find("this run needs about "), std::string::npos) << message;
  EXPECT_LT(peak_kilobytes() - before, 64 * 1024);
  EXPECT_FALSE(std::filesystem::exists(run_path()));
}

TEST_F(Memory, TheEstimateIsAboutWhatAStepTakes) {
  const std::vector<std::vector<std::string>> cases = {
      {"model.d_model=64", "model.n_layers=4", "train.context_length=64", "train.batch_size=32"},
      {"train.micro_batch=1", "model.d_model=64", "train.context_length=64", "train.batch_size=32"},
      {"model.d_model=32", "train.context_length=300", "eval.lengths=16", "train.batch_size=16", "train.dtype=f64"},
      {"model.activation=swiglu", "model.n_layers=6", "train.context_length=128", "eval.lengths=128",
       "model.qk_norm=true"},
      {"model.arch=encoder_decoder", "data.source=task", "data.task=addition", "data.max_length=20",
       "train.context_length=48", "eval.lengths=20", "train.batch_size=32", "model.d_model=64"},
      {"attention.pattern=top_k", "attention.top_k=16", "attention.index_heads=4", "attention.index_dim=32",
       "model.d_model=64", "model.n_layers=4", "train.context_length=128", "eval.lengths=128", "train.batch_size=32"},
      {"attention.pattern=top_k", "attention.top_k=16", "attention.index_heads=16", "attention.index_dim=64",
       "attention.index_precision=int8", "attention.index_hadamard=true", "model.d_model=32",
       "train.context_length=256", "eval.lengths=128", "train.batch_size=16"},
      {"attention.pattern=top_k", "attention.top_k=16", "attention.index_warmup_steps=20", "model.d_model=64",
       "train.context_length=512", "eval.lengths=128", "train.batch_size=8"}};
  for (const std::vector<std::string>& overrides : cases) {
    SCOPED_TRACE(overrides.front());
    Training run(config(overrides));
    run.trainer.step(1, {});
    run.trainer.step(2, {});
    const MemoryEstimate estimate =
        estimate_memory(run.setup.config, static_cast<double>(run.parameters().elements()),
                        run.setup.config.model.vocab_size, longest_evaluation_shape(run.setup.config));
    const auto taken = static_cast<double>(run.trainer.arena_bytes());
    EXPECT_GT(estimate.activations, 0.5 * taken);
    EXPECT_LT(estimate.activations, 3.0 * taken);
  }
}

TEST_F(Memory, ParametersAreCountedFromTheSizes) {
  const std::vector<std::vector<std::string>> cases = {
      {"model.bias=false", "model.norm=rmsnorm"},
      {"model.tie_embeddings=false", "model.n_kv_heads=1", "model.d_head=12"},
      {"position.encoding=learned", "model.activation=geglu", "model.d_ff=40"}};
  for (const std::vector<std::string>& overrides : cases) {
    const RunSetup setup = set_up(config(overrides));
    const auto exact = static_cast<double>(setup.model->parameters().elements());
    // Biases and norms are left out.
    const double counted = count_parameters(architecture_of(setup.config));
    EXPECT_LE(counted, exact);
    EXPECT_GT(counted, 0.9 * exact);
  }
}

TEST(BytesText, ChoosesAUnit) {
  EXPECT_EQ(bytes_text(1023), "1023 bytes");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(3.0 * 1024 * 1024 * 1024), "3.0 GiB");
  EXPECT_NE(bytes_text(1e30).find("EiB"), std::string::npos);
}

TEST_F(Memory, TablesOfOffsetsCountByThePositionsThatTheyAreMadeFor) {
  const auto activations = [&](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = {"train.threads=1"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const Config c = config(overrides);
    return estimate_memory(c, 0, 50, {.length = 8}).activations;
  };
  const Config c = config({});
  const auto heads = static_cast<double>(c.model.n_heads);
  const double numbers = heads * static_cast<double>(c.model.d_head + 1);
  const double bytes = (c.train.dtype == "f64" ? 8 : 4) * 2 * static_cast<double>(c.model.n_layers);
  const double none = activations({"position.encoding=none"});
  const auto context = static_cast<double>(c.train.context_length);
  EXPECT_DOUBLE_EQ(activations({"position.encoding=xl"}) - none, bytes * numbers * (2 * context - 1));
  EXPECT_DOUBLE_EQ(activations({"position.encoding=xl", "position.randomize_to=5000"}) - none, bytes * numbers * 9999);
  EXPECT_DOUBLE_EQ(activations({"position.encoding=t5", "position.randomize_to=5000"}) - none, bytes * heads * 9999);
  EXPECT_EQ(activations({"position.encoding=shaw"}), none);
}

}  // namespace
}  // namespace ropewalk
