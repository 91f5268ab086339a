#include "layers/positions/randomized.h"

#include <algorithm>
#include <utility>

#include "framework/error.h"
#include "framework/random.h"

namespace ropewalk {

std::vector<int32_t> sample_positions(int64_t count, int64_t limit, const std::optional<TrainingStep>& training) {
  require(count <= limit, "{} positions out of [0, {})", count, limit);
  const RandomKey key = training ? RandomKey{training->seed, Stream::positions, training->step, 1}
                                 : RandomKey{.stream = Stream::positions};
  std::vector<int32_t> out;
  // Selection sampling: each position in turn with the chance that the places left have among the positions left.
  for (int64_t position = 0; static_cast<int64_t>(out.size()) < count; ++position) {
    const auto left = static_cast<double>(limit - position);
    const auto wanted = static_cast<double>(count - static_cast<int64_t>(out.size()));
    if (left * random_uniform(key, static_cast<uint64_t>(position)) < wanted) {
      out.push_back(static_cast<int32_t>(position));
    }
  }
  return out;
}

namespace {

class Randomized : public PositionScheme {
 public:
  Randomized(std::unique_ptr<PositionScheme> scheme, int64_t limit) : scheme_(std::move(scheme)), limit_(limit) {
    const int64_t most = scheme_->greatest_length();
    require(most == 0 || limit <= most,
            "position.randomize_to = {} exceeds the {} positions that position.encoding has by {}; lower it or change "
            "these",
            limit, most, scheme_->limited_by());
  }

  void declare(const Declarations& declarations) override { scheme_->declare(declarations); }
  void declare_in_block(const Declarations& declarations, const std::string& prefix) override {
    scheme_->declare_in_block(declarations, prefix);
  }
  void prepare(const PassPositions& pass) override {
    const int64_t capacity = std::max(pass.draw.capacity, pass.length);
    require(capacity <= limit_,
            "a sequence of {} tokens, but position.randomize_to = {} has no more positions; raise it, which a trained "
            "run may do, or take fewer tokens",
            capacity, limit_);
    sample_ = sample_positions(capacity, limit_, pass.draw.training);
    sample_.resize(static_cast<std::size_t>(pass.length));
    scheme_->prepare({sample_, limit_});
  }
  Var embed(Var x, const TokenPlaces& places) const override {
    return scheme_->embed(x, {places.start, places.first_token, sample_});
  }
  const RotaryTable* rotation() const override { return scheme_->rotation(); }
  void bias(const BlockPass& pass, AttentionOptions& options) const override {
    options.positions = sample_;
    scheme_->bias(pass, options);
  }
  int64_t greatest_length() const override { return limit_; }
  std::string limited_by() const override { return "position.randomize_to, which a trained run may raise"; }
  // The sample of a longer sequence is another one.
  bool depends_on_length() const override { return true; }

 private:
  std::unique_ptr<PositionScheme> scheme_;
  int64_t limit_;
  std::vector<int32_t> sample_;
};

}  // namespace

std::unique_ptr<PositionScheme> with_random_positions(std::unique_ptr<PositionScheme> scheme, int64_t limit) {
  return std::make_unique<Randomized>(std::move(scheme), limit);
}

}  // namespace ropewalk
