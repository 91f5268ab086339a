#include "train/greedy.h"

#include <algorithm>

#include "layers/positions/options.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

class GreedyTest : public TinyTraining {
 protected:
  GreedyTest() = default;

  /// Models whose weights are large enough that their answers differ from source to source.
  RunSetup made(const std::vector<std::string>& overrides, int64_t seed = 3) const {
    std::vector<std::string> all = {
        "model.arch=encoder_decoder", "data.source=task", "data.task=copy", "data.alphabet=4",
        "data.max_length=6",          "eval.lengths=4",   "train.dtype=f64"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    RunSetup setup = set_up(config(all));
    setup.model->initialize(static_cast<uint64_t>(seed));
    const Tensor& values = setup.model->parameters().flat_values();
    for (int64_t i = 0; i < values.elements(); ++i) values.set(i, 4 * values.at(i));
    return setup;
  }
  static std::vector<int32_t> answers(Transformer& model, const BatchPart& part, int64_t most) {
    Workspace workspace;
    GreedyAnswers greedy(model, part, most);
    model.prepare_source(part.source.length);
    while (!greedy.done()) {
      model.prepare(greedy.length() + 1, {.capacity = most});
      greedy.step(workspace);
    }
    return {greedy.tokens().begin(), greedy.tokens().end()};
  }
};

/// One answer without a cache: all of it is read again for each token.
std::vector<int32_t> answer_read_anew(Transformer& model, const SourceTokens& source, int64_t index, int64_t most) {
  const std::vector<int64_t> lengths = {source.lengths[static_cast<std::size_t>(index)]};
  std::vector<int32_t> read = {kBegin};
  std::vector<int32_t> answer(static_cast<std::size_t>(most), kPad);
  for (int64_t t = 0; t < most; ++t) {
    // Without the padding that the source has beside longer ones, which takes random positions of its own.
    model.prepare_source(lengths.front(), {.capacity = source.length});
    model.prepare(t + 1, {.capacity = most});
    Workspace workspace;
    Tape tape(workspace, Mode::inference, &model.parameters());
    ForwardPass pass{.tape = tape, .sequences = 1, .length = t + 1};
    model.encode(pass,
                 {.tokens = source.tokens + index * source.length, .length = lengths.front(), .lengths = lengths});
    const Tensor logits = model.logits(pass, read.data()).value();
    const int64_t vocabulary = logits.shape[-1];
    int32_t best = 0;
    for (int32_t v = 1; v < vocabulary; ++v) {
      if (logits.at(t * vocabulary + v) > logits.at(t * vocabulary + best)) best = v;
    }
    answer[static_cast<std::size_t>(t)] = best;
    if (best == kEnd || best == kPad) break;
    read.push_back(best);
  }
  return answer;
}

TEST_F(GreedyTest, GivesWhatReadingItAllAnewForEachTokenGives) {
  std::vector<std::vector<std::string>> cases;
  for (const PositionSchemeInfo& scheme : position_scheme_infos()) {
    cases.push_back({"position.encoding=" + scheme.name});
    cases.push_back({"position.encoding=" + scheme.name, "position.randomize_to=40"});
  }
  cases.push_back({"position.rope_scaling=dynamic_ntk", "position.rope_factor=4", "position.rope_original_context=3"});
  cases.push_back({"model.n_kv_heads=1", "model.norm_placement=post", "attention.window_radius=2"});
  for (const std::vector<std::string>& overrides : cases) {
    SCOPED_TRACE(overrides.front());
    RunSetup setup = made(overrides);
    ModelBatch batch;
    batch.resize(12, {.source = 6, .length = 7});
    batch.fill_training(*setup.dataset, 1, 1);
    const BatchPart part = batch.part(2, 10);
    const std::vector<int32_t> all = answers(*setup.model, part, 9);
    for (int64_t i = 0; i < 10; ++i) {
      const std::vector<int32_t> one(all.begin() + i * 9, all.begin() + (i + 1) * 9);
      EXPECT_EQ(one, answer_read_anew(*setup.model, part.source, i, 9)) << "sequence " << i;
    }
  }
}

TEST_F(GreedyTest, AnAnswerStopsAtItsEnd) {
  RunSetup setup = made({"model.tie_embeddings=false"});
  const ParameterSet& parameters = setup.model->parameters();
  fill(parameters.value(parameters.find("final_norm.weight")), 0.0);
  fill(parameters.value(parameters.find("final_norm.bias")), 1.0);
  const Tensor head = parameters.value(parameters.find("lm_head.weight"));
  ModelBatch batch;
  batch.resize(2, {.source = 6, .length = 7});
  batch.fill_training(*setup.dataset, 1, 1);
  const auto always = [&](int32_t token) {
    fill(head, 0.0);
    for (int64_t j = 0; j < 16; ++j) head.set(token * 16 + j, 1.0);
    return answers(*setup.model, batch.part(0, 2), 3);
  };
  EXPECT_EQ(always(kEnd), (std::vector<int32_t>{kEnd, kPad, kPad, kEnd, kPad, kPad}));
  EXPECT_EQ(always(kFirstSymbol), std::vector<int32_t>(6, kFirstSymbol)) << "one that never ends";
}

}  // namespace
}  // namespace ropewalk
