#include "layers/positions/decoupled.h"

#include <algorithm>
#include <utility>

namespace ropewalk {
namespace {

class Decoupled : public PositionScheme {
 public:
  Decoupled(std::unique_ptr<PositionScheme> scheme, std::unique_ptr<PositionScheme> rotation)
      : scheme_(std::move(scheme)), rotation_(std::move(rotation)) {}

  void declare(const Declarations& declarations) override { scheme_->declare(declarations); }
  void declare_in_block(const Declarations& declarations, const std::string& prefix) override {
    scheme_->declare_in_block(declarations, prefix);
  }
  void prepare(const PassPositions& positions) override {
    scheme_->prepare(positions);
    rotation_->prepare(positions);
  }
  Var embed(Var x, const TokenPlaces& places) const override { return scheme_->embed(x, places); }
  const RotaryTable* rotation() const override { return rotation_->rotation(); }
  void bias(const BlockPass& pass, AttentionOptions& options) const override { scheme_->bias(pass, options); }
  bool depends_on_length() const override { return scheme_->depends_on_length() || rotation_->depends_on_length(); }
  int64_t greatest_length() const override { return scheme_->greatest_length(); }
  std::string limited_by() const override { return scheme_->limited_by(); }

 private:
  std::unique_ptr<PositionScheme> scheme_;
  std::unique_ptr<PositionScheme> rotation_;
};

}  // namespace

std::unique_ptr<PositionScheme> with_rotation_of(std::unique_ptr<PositionScheme> scheme,
                                                 std::unique_ptr<PositionScheme> rotation) {
  return std::make_unique<Decoupled>(std::move(scheme), std::move(rotation));
}

}  // namespace ropewalk
