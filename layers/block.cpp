#include "layers/block.h"

#include <cmath>

#include <fmt/format.h>

#include "framework/ops/elementwise.h"

namespace ropewalk {

Block Block::declare(const Declarations& declarations, int64_t index, const ArchitectureConfig& config,
                     PositionScheme& scheme, bool crosses) {
  const ModelConfig& model = config.model;
  const std::string name = fmt::format("blocks.{}", index);
  Block block{.index = index,
              .placement = model.norm_placement,
              .deepnorm_alpha = std::pow(2.0 * static_cast<double>(model.n_layers), 0.25),
              .attention_name = declarations.prefix + name + ".attention",
              .cross_attention_name = declarations.prefix + name + ".cross_attention",
              .ffn_name = declarations.prefix + name + ".ffn"};
  const bool norms = model.norm_placement != NormPlacement::none;
  const bool sandwich = model.norm_placement == NormPlacement::sandwich;
  if (norms) block.attention_norm = NormLayer::declare(declarations, name + ".attention_norm", model);
  block.attention = declare_attention(declarations, name + ".attention", config, scheme);
  if (sandwich) block.attention_post_norm = NormLayer::declare(declarations, name + ".attention_post_norm", model);
  if (crosses) {
    if (norms) block.cross_attention_norm = NormLayer::declare(declarations, name + ".cross_attention_norm", model);
    block.cross_attention = CrossAttention::declare(declarations, name + ".cross_attention", config);
    if (sandwich) {
      block.cross_attention_post_norm = NormLayer::declare(declarations, name + ".cross_attention_post_norm", model);
    }
  }
  if (norms) block.ffn_norm = NormLayer::declare(declarations, name + ".ffn_norm", model);
  block.ffn = FeedForward::declare(declarations, name + ".ffn", model);
  if (sandwich) block.ffn_post_norm = NormLayer::declare(declarations, name + ".ffn_post_norm", model);
  return block;
}

Var Block::forward(ForwardPass& pass, const PositionScheme& scheme, Var x) const {
  // a y + dropout(branch), in one op where nothing is dropped.
  const auto residual = [&](Var y, const Branch& branch, double a = 1.0) {
    if (pass.dropout.rate == 0.0) return branch.projection.add_to(y, a, branch.x);
    return scale_add(y, a, pass.drop(branch.value()));
  };
  const auto sublayer = [&](Var y, const NormLayer& norm, const NormLayer& post_norm, const auto& f) {
    switch (placement) {
      case NormPlacement::pre:
        return residual(y, f(norm.forward(y)));
      case NormPlacement::post:
        return norm.forward(residual(y, f(y)));
      case NormPlacement::sandwich:
        return add(y, pass.drop(post_norm.forward(f(norm.forward(y)).value())));
      case NormPlacement::deepnorm:
        return norm.forward(residual(y, f(y), deepnorm_alpha));
      case NormPlacement::none:
        break;
    }
    return residual(y, f(y));
  };
  pass.tape.enter_module(attention_name.c_str());
  x = sublayer(x, attention_norm, attention_post_norm, [&](Var y) {
    return std::visit([&](const auto& a) { return a.forward(pass, index, scheme, y); }, attention);
  });
  if (cross_attention) {
    pass.tape.enter_module(cross_attention_name.c_str());
    x = sublayer(x, cross_attention_norm, cross_attention_post_norm,
                 [&](Var y) { return cross_attention->forward(pass, index, y); });
  }
  pass.tape.enter_module(ffn_name.c_str());
  return sublayer(x, ffn_norm, ffn_post_norm, [&](Var y) { return ffn.forward(y); });
}

}  // namespace ropewalk
