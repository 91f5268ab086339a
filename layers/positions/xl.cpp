#include <fmt/format.h>

#include <vector>

#include "framework/ops/linear.h"
#include "framework/ops/relative_bias.h"
#include "layers/positions/scheme.h"
#include "layers/positions/sinusoidal.h"
#include "layers/positions/table_length.h"

namespace ropewalk {
namespace {

constexpr double kBase = 10000.0;

/// score_ij = (q_i + u_h) . k_j + (q_i + v_h) . (W_h r_(i - j)) with the sinusoids r of the offset: all layers have
/// their own W, u and v. The second product is that of q_i + u_h with a relative key and (v_h - u_h) . W_h r beside, a
/// bias that depends on the offset only.
class TransformerXl : public PositionScheme {
 public:
  explicit TransformerXl(const PositionSizes& sizes) : sizes_(sizes) {}

  void declare_in_block(const Declarations& declarations, const std::string& prefix) override {
    const int64_t columns = sizes_.n_heads * sizes_.d_head;
    const InitRule vector{.kind = InitRule::Kind::embedding};
    projection_.push_back(
        declarations.add(prefix + ".xl.projection.weight", {columns, sizes_.d_model}, Role::weight,
                         {.kind = InitRule::Kind::linear, .fan_in = sizes_.d_model, .fan_out = columns}));
    content_bias_.push_back(
        declarations.add(prefix + ".xl.content_bias", {sizes_.n_heads, sizes_.d_head}, Role::other, vector));
    offset_bias_.push_back(
        declarations.add(prefix + ".xl.offset_bias", {sizes_.n_heads, sizes_.d_head}, Role::other, vector));
  }
  void prepare(const PassPositions& positions) override {
    length_ = positions.reach;
    if (length_ <= greatest_length_) return;
    greatest_length_ = table_length(length_);
    std::vector<int64_t> distances;
    for (int64_t offset = 1 - greatest_length_; offset < greatest_length_; ++offset) distances.push_back(-offset);
    sinusoids_ = sinusoidal_table(distances, sizes_.d_model, kBase, sizes_.dtype);
  }
  void bias(const BlockPass& pass, AttentionOptions& options) const override {
    const auto b = static_cast<std::size_t>(pass.block);
    Tape& tape = pass.tape;
    options.query_bias = tape.parameter(content_bias_[b]);
    const auto made = offset_tables<2>(tape, pass.kept, length_, [&](int64_t length) {
      const Var keys = linear(tape.constant(sinusoids(length)), tape.parameter(projection_[b]));
      return std::array{keys,
                        relative_key_bias(keys, options.query_bias, tape.parameter(offset_bias_[b]), options.scale)};
    });
    options.relative_keys = made.tables[0];
    options.offset_bias = made.tables[1];
    options.offset_origin = made.length - 1;
  }

 private:
  /// Those of the offsets of `length` positions, out of a table that is made for more.
  Tensor sinusoids(int64_t length) const {
    Tensor part = sinusoids_;
    part.shape = {2 * length - 1, sizes_.d_model};
    part.bytes = static_cast<char*>(part.bytes) +
                 static_cast<std::size_t>((greatest_length_ - length) * sizes_.d_model) * size_of(part.dtype);
    return part;
  }

  PositionSizes sizes_;
  int64_t length_ = 1;
  int64_t greatest_length_ = 0;
  Tensor sinusoids_;  ///< of the distances greatest_length_ - 1 .. 1 - greatest_length_
  std::vector<int32_t> projection_;
  std::vector<int32_t> content_bias_;
  std::vector<int32_t> offset_bias_;
};

PositionFindings check(const PositionUse& use) {
  if (use.model.d_model % 2 == 0) return {};
  return {
      {.keys = {"model.d_model", "position.encoding"},
       .message = fmt::format("model.d_model = {} must be even with position.encoding = xl, whose sinusoids come in "
                              "pairs",
                              use.model.d_model)}};
}

double numbers_an_offset(const PositionUse& use) {
  return static_cast<double>(use.model.n_heads) * static_cast<double>(use.model.d_head + 1);
}

}  // namespace

PositionSchemeRow xl_scheme() {
  return {
      .info = {.name = "xl",
               .summary = "learned projections of the sinusoids of offsets, added to the keys, with biases of the "
                          "queries (Transformer-XL, Dai et al. 2019)",
               .check = check,
               .relative_vectors = [](const PositionUse&, double visible_keys) { return visible_keys; },
               .numbers_an_offset = numbers_an_offset},
      .make = [](const PositionConfig&, const PositionSizes& sizes) { return std::make_unique<TransformerXl>(sizes); }};
}

}  // namespace ropewalk
