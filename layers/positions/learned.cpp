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
  void prepare(int64_t length) override {
    require(length <= max_length_, "a sequence of {} positions for a learned table of {} (position.max_length)", length,
            max_length_);
  }
  Var embed(Var x) const override { return add_positions(x, x.tape->parameter(table_), 0); }
  int64_t greatest_length() const override { return max_length_; }

 private:
  int64_t max_length_;
  int64_t d_model_;
  int32_t table_ = -1;
};

}  // namespace

PositionSchemeRow learned_scheme() {
  return {
      .info = {.name = "learned", .summary = "one learned vector a position, up to max_length (Gehring et al. 2017)"},
      .make = [](const PositionConfig& config, const PositionSizes& sizes) {
        return std::make_unique<Learned>(config.max_length, sizes.d_model);
      }};
}

}  // namespace ropewalk
