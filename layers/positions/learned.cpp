#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "framework/error.h"
#include "framework/ops/embedding.h"
#include "layers/positions/scheme.h"

namespace ropewalk {
namespace {

/// x_t + P_t, with a learned table P [max_length, d_model] (Gehring et al. 2017).
class Learned : public PositionScheme {
 public:
  Learned(int64_t max_length, int64_t d_model) : max_length_(max_length), d_model_(d_model) {}

  void declare(const Declarations& declarations) override {
    table_ = declarations.add("position_embedding.weight", {max_length_, d_model_}, Role::other,
                              {.kind = InitRule::Kind::embedding});
  }
  void prepare(const PassPositions& positions) override {
    require(positions.reach <= max_length_,
            "a sequence of {} positions for a learned table of {} (position.max_length)", positions.reach, max_length_);
  }
  Var embed(Var x, const TokenPlaces& places) const override {
    return add_positions(x, x.tape->parameter(table_), places);
  }
  int64_t greatest_length() const override { return max_length_; }
  std::string limited_by() const override { return "position.max_length"; }

 private:
  int64_t max_length_;
  int64_t d_model_;
  int32_t table_ = -1;
};

PositionFindings check(const PositionUse& use) {
  const int64_t rows = use.position.max_length;
  const int64_t randomized = use.position.randomize_to;
  if (rows < randomized) {
    return {{.keys = {"position.max_length", "position.randomize_to"},
             .message = fmt::format("position.max_length = {} is less than position.randomize_to = {}; a learned table "
                                    "needs a row for every position",
                                    rows, randomized)}};
  }
  if (rows < use.context_length) {
    return {{.keys = {"position.max_length", "train.context_length"},
             .message = fmt::format("position.max_length = {} is less than train.context_length = {}; a learned table "
                                    "needs a row for every position",
                                    rows, use.context_length)}};
  }
  std::vector<int64_t> beyond;
  std::copy_if(use.eval_lengths.begin(), use.eval_lengths.end(), std::back_inserter(beyond),
               [&](int64_t length) { return length > rows; });
  if (beyond.empty()) return {};
  return {{.keys = {"eval.lengths", "position.max_length"},
           .message = fmt::format("eval.lengths {} exceed position.max_length = {}, where the learned table ends",
                                  fmt::join(beyond, ", "), rows),
           .warning = true}};
}

}  // namespace

PositionSchemeRow learned_scheme() {
  return {.info = {.name = "learned",
                   .summary = "one learned vector a position, up to max_length (Gehring et al. 2017)",
                   .reads_max_length = true,
                   .check = check},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<Learned>(config.max_length, sizes.d_model);
          }};
}

}  // namespace ropewalk
