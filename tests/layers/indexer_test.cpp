#include "layers/indexer.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/layers/combinations.h"

namespace ropewalk::testing {
namespace {

ArchitectureConfig sparse_architecture(Sharing sharing = Sharing::mha, int64_t top_k = 3) {
  ArchitectureConfig config =
      Combination{.encoding = "rope", .sharing = sharing, .pattern = Pattern::top_k}.architecture();
  config.attention.top_k = top_k;
  config.attention.index_heads = 3;
  config.attention.index_dim = 8;
  return config;
}

/// Gives a model the values of another for every name that it has.
void copy_parameters(const Transformer& from, const Transformer& to) {
  for (const Parameter& parameter : to.parameters().all()) {
    const int32_t source = from.parameters().find(parameter.name);
    ASSERT_GE(source, 0) << parameter.name;
    const Tensor value = to.parameters().value(to.parameters().find(parameter.name));
    std::memcpy(value.bytes, from.parameters().value(source).bytes, value.size_bytes());
  }
}

/// One pass of two sequences over `tokens`: logits, loss of the indexers, what they chose, and on request the gradients
/// of the former's cross-entropy or of the latter's sum.
struct PassResult {
  Tensor logits;
  double index_loss = 0;
  std::size_t index_losses = 0;
  std::vector<int32_t> selected;
};

enum class Start : uint8_t { nothing, model, indexers };

PassResult pass_of(const Transformer& model, const std::vector<int32_t>& tokens, bool warmup, Start start,
                   GradientBuffer* gradients = nullptr) {
  Workspace workspace;
  Tape tape(workspace, gradients != nullptr ? Mode::train : Mode::inference, &model.parameters(), gradients);
  std::vector<Var> losses;
  std::vector<SelectedKeys> selected;
  ForwardPass pass{.tape = tape,
                   .sequences = 2,
                   .length = static_cast<int64_t>(tokens.size()) / 2,
                   .trace = {.selected = &selected},
                   .index_training = {.losses = &losses, .sequences = 2, .warmup = warmup}};
  const Var logits = model.logits(pass, tokens.data());
  PassResult out{.logits = copy_of(logits.value()), .index_losses = losses.size(), .selected = positions_of(selected)};
  Var sum;
  for (const Var loss : losses) sum = sum ? add(sum, loss) : loss;
  if (sum) out.index_loss = sum.value().at(0);
  if (gradients != nullptr) {
    gradients->clear();
    const std::vector<int32_t> targets = some_tokens(static_cast<int64_t>(tokens.size()), 1);
    tape.backward(
        start == Start::indexers ? sum : cross_entropy(logits, targets.data(), static_cast<double>(targets.size())));
    gradients->complete(model.parameters());
  }
  return out;
}

constexpr Sharing kSharings[] = {Sharing::mha, Sharing::gqa, Sharing::mqa, Sharing::mla};

TEST(IndexerTest, WithAsManyKeysAsThereAreItIsTheDenseModelBitForBit) {
  const std::vector<int32_t> tokens = some_tokens(12);
  const std::vector<int32_t> targets = some_tokens(12, 1);
  for (const Sharing sharing : kSharings) {
    for (const int64_t top_k : {6, 100}) {
      const auto sparse = make_model(sparse_architecture(sharing, top_k), 6);
      const auto dense = make_model(Combination{.encoding = "rope", .sharing = sharing}.architecture(), 6);
      copy_parameters(*sparse, *dense);
      EXPECT_TRUE(same_bits(logits_of(*sparse, tokens, 2), logits_of(*dense, tokens, 2)));
      GradientBuffer of_sparse(sparse->parameters());
      GradientBuffer of_dense(dense->parameters());
      EXPECT_EQ(loss_of(*sparse, tokens, targets, 2, &of_sparse), loss_of(*dense, tokens, targets, 2, &of_dense));
      for (const Parameter& parameter : dense->parameters().all()) {
        const ParameterSet& a = sparse->parameters();
        const ParameterSet& b = dense->parameters();
        EXPECT_TRUE(same_bits(a.view(of_sparse.flat(), a.find(parameter.name)),
                              b.view(of_dense.flat(), b.find(parameter.name))))
            << parameter.name;
      }
      // And with a cache, some tokens at once and one after the other.
      KeyValueCache sparse_cache = sparse->make_cache(1, 6);
      KeyValueCache dense_cache = dense->make_cache(1, 6);
      const auto cached = [&](Transformer& model, KeyValueCache& cache, int64_t count) {
        model.prepare(cache.length() + count);
        Workspace workspace;
        Tape tape(workspace, Mode::inference, &model.parameters());
        const int32_t* next = tokens.data() + cache.length();
        ForwardPass pass{.tape = tape, .sequences = 1, .length = count, .cache = &cache};
        return copy_of(model.logits(pass, next).value());
      };
      for (const int64_t count : {3, 1, 2}) {
        EXPECT_TRUE(same_bits(cached(*sparse, sparse_cache, count), cached(*dense, dense_cache, count))) << count;
      }
    }
  }
}

TEST(IndexerTest, WithFewerKeysItIsNot) {
  const std::vector<int32_t> tokens = some_tokens(12);
  for (const Sharing sharing : kSharings) {
    const auto all = make_model(sparse_architecture(sharing, 6), 6);
    const auto some = make_model(sparse_architecture(sharing, 5), 6);
    EXPECT_GT(greatest_difference(logits_of(*all, tokens, 2), logits_of(*some, tokens, 2)), 1e-6);
  }
}

TEST(IndexerTest, ChoosesWhatItSaysAndTheSameWithAHadamardRotation) {
  const std::vector<int32_t> tokens = some_tokens(80);
  for (const Sharing sharing : {Sharing::mha, Sharing::mla}) {
    ArchitectureConfig config = sparse_architecture(sharing, 5);
    const auto plain = make_model(config, 40, DType::f32);
    const std::vector<int32_t> chosen = pass_of(*plain, tokens, false, Start::nothing).selected;
    ASSERT_EQ(chosen.size(), 2u * 2 * 40 * 5) << "two layers, two sequences";
    for (std::size_t row = 0; row < chosen.size() / 5; ++row) {
      const auto t = static_cast<int32_t>(row % 40);
      const auto first = chosen.begin() + static_cast<std::ptrdiff_t>(5 * row);
      EXPECT_EQ(std::count(first, first + 5, -1), std::max(0, 4 - t));
      EXPECT_LE(*std::max_element(first, first + 5), t);
    }
    config.attention.index_hadamard = true;
    const auto turned = make_model(config, 40, DType::f32);
    EXPECT_EQ(pass_of(*turned, tokens, false, Start::nothing).selected, chosen);
    // Rounding to integers makes some other choices.
    config.attention.index_precision = IndexPrecision::int8;
    const auto rounded = make_model(config, 40, DType::f32);
    const std::vector<int32_t> coarse = pass_of(*rounded, tokens, false, Start::nothing).selected;
    int64_t same = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) same += coarse[i] == chosen[i] ? 1 : 0;
    EXPECT_NE(coarse, chosen);
    EXPECT_GT(static_cast<double>(same), 0.7 * static_cast<double>(chosen.size()));
  }
}

/// Every encoding, kind of attention and option of RoPE with an indexer.
std::vector<Combination> combinations() {
  std::vector<Combination> out = attention_combinations();
  std::erase_if(out, [](const Combination& c) { return c.pattern != Pattern::top_k; });
  return out;
}

TEST(IndexerTest, LearnsByItsOwnLossAndTheModelByItsOwn) {
  const std::vector<int32_t> tokens = some_tokens(12);
  for (const Combination& combination : combinations()) {
    SCOPED_TRACE(combination);
    for (const bool warmup : {true, false}) {
      const auto model = make_model(combination.architecture(), 6);
      const ParameterSet& p = model->parameters();
      for (const Start start : {Start::model, Start::indexers}) {
        GradientBuffer gradients(p);
        const PassResult result = pass_of(*model, tokens, warmup, start, &gradients);
        EXPECT_EQ(result.index_losses, 2u);
        EXPECT_EQ(result.selected.empty(), warmup);
        EXPECT_GT(result.index_loss, 1e-3);
        for (int32_t i = 0; i < static_cast<int32_t>(p.size()); ++i) {
          const Tensor gradient = p.view(gradients.flat(), i);
          double greatest = 0;
          for (int64_t e = 0; e < gradient.elements(); ++e) greatest = std::max(greatest, std::abs(gradient.at(e)));
          const bool learns = is_index_parameter(p[i].name) == (start == Start::indexers);
          // Where the few pairs below FIRE's threshold meet no unit that is on, it does not move.
          if (learns && greatest == 0 && p[i].name.ends_with("fire.L_multiplier")) continue;
          EXPECT_EQ(greatest > 0, learns) << p[i].name;
        }
      }
    }
  }
}

TEST(IndexerTest, GradientsOfItsLossMatchDifferences) {
  const std::vector<int32_t> tokens = some_tokens(12);
  for (const Combination& combination : combinations()) {
    SCOPED_TRACE(combination);
    for (const bool warmup : {true, false}) {
      const auto model = make_model(combination.architecture(), 6);
      const ParameterSet& p = model->parameters();
      GradientBuffer gradients(p);
      const PassResult here = pass_of(*model, tokens, warmup, Start::indexers, &gradients);
      int compared = 0;
      for (int32_t i = 0; i < static_cast<int32_t>(p.size()); ++i) {
        if (!is_index_parameter(p[i].name)) continue;
        const Tensor value = p.value(i);
        const Tensor gradient = p.view(gradients.flat(), i);
        for (int64_t e = 0; e < value.elements(); e += 5) {
          const double x = value.at(e);
          bool other_keys = false;
          const auto at = [&](double step) {
            value.set(e, x + step);
            const PassResult there = pass_of(*model, tokens, warmup, Start::nothing);
            other_keys = other_keys || there.selected != here.selected;
            return there.index_loss;
          };
          // Small, for the kinks of relu are near.
          constexpr double h = 1e-6;
          const double numeric = (at(h) - at(-h)) / (2 * h);
          value.set(e, x);
          if (other_keys) continue;
          ++compared;
          EXPECT_NEAR(gradient.at(e), numeric, 1e-8) << p[i].name << " " << e;
        }
      }
      EXPECT_GT(compared, 20);
    }
  }
}

TEST(IndexerTest, WithAllKeysChosenItsLossIsThatOfTheWarmUp) {
  const auto model = make_model(sparse_architecture(Sharing::mha, 6), 6);
  const std::vector<int32_t> tokens = some_tokens(12);
  EXPECT_EQ(pass_of(*model, tokens, true, Start::nothing).index_loss,
            pass_of(*model, tokens, false, Start::nothing).index_loss);
}

TEST(IndexerTest, WorksInBothDirectionsAndUnderAWindow) {
  for (const int64_t radius : {-1, 3}) {
    ArchitectureConfig config = sparse_architecture(Sharing::mha, 2);
    config.attention.causal = radius >= 0;
    config.attention.window_radius = radius;
    config.attention.global_tokens = radius >= 0 ? 1 : 0;
    const auto model = make_model(config, 7);
    EXPECT_LT(loss_gradient_error(*model, 7), 1e-8) << radius;
    const std::vector<int32_t> tokens = some_tokens(14);
    const std::vector<int32_t> chosen = pass_of(*model, tokens, false, Start::nothing).selected;
    bool later = false;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto t = static_cast<int32_t>(i / 2 % 7);
      later = later || chosen[i] > t;
      if (radius >= 0 && chosen[i] > 0) {
        EXPECT_LE(t - chosen[i], radius);
      }
    }
    EXPECT_EQ(later, radius < 0);
  }
}

TEST(IndexerTest, TheCacheHoldsItsKeyBesidesKeysAndValues) {
  EXPECT_EQ(cache_columns(resolved(sparse_architecture(Sharing::gqa))), (std::vector<int64_t>{8, 8, 8}));
  EXPECT_EQ(cache_columns(resolved(sparse_architecture(Sharing::mla))), (std::vector<int64_t>{7, 8}));
  const auto model = make_model(sparse_architecture(Sharing::mla), 4, DType::f32);
  EXPECT_EQ(model->make_cache(3, 10).bytes(), 2 * 3 * 10 * (5 + 2 + 8) * 4);
}

TEST(IndexerTest, SaysWhatItNeeds) {
  const auto message = [](void (*change)(AttentionConfig&)) -> std::string {
    ArchitectureConfig config = sparse_architecture();
    change(config.attention);
    try {
      resolved(config);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto names = [](const std::string& text, const char* key) { return text.find(key) != std::string::npos; };
  EXPECT_EQ(message([](AttentionConfig&) {}), "");
  EXPECT_TRUE(names(message([](auto& a) { a.top_k = 0; }), "attention.top_k"));
  EXPECT_TRUE(names(message([](auto& a) { a.index_heads = 0; }), "attention.index_heads = 0"));
  EXPECT_TRUE(names(message([](auto& a) { a.index_dim = 6; }), "attention.index_dim = 6"));
  EXPECT_EQ(message([](auto& a) { a.index_dim = 12; }), "");
  EXPECT_TRUE(names(message([](auto& a) {
                      a.index_dim = 12;
                      a.index_hadamard = true;
                    }),
                    "attention.index_hadamard"));
  EXPECT_TRUE(names(message([](auto& a) {
                      a.index_dim = 2048;
                      a.index_precision = IndexPrecision::int8;
                    }),
                    "attention.index_precision = int8"));
}

TEST(IndexerTest, NamesAndShapes) {
  const auto model = make_model(sparse_architecture(), 4);
  std::vector<std::string> found;
  for (const Parameter& parameter : model->parameters().all()) {
    if (!is_index_parameter(parameter.name) || !parameter.name.starts_with("blocks.1.")) continue;
    found.push_back(parameter.name + " " + parameter.shape.to_string());
  }
  const auto line = [](const char* name, const Shape& shape) {
    return std::string("blocks.1.attention.") + name + " " + shape.to_string();
  };
  EXPECT_EQ(found, (std::vector<std::string>{line("index_query.weight", {24, 8}), line("index_key.weight", {8, 8}),
                                             line("index_key_norm.weight", {8}), line("index_key_norm.bias", {8}),
                                             line("index_weight.weight", {3, 8})}));
}

}  // namespace
}  // namespace ropewalk::testing
