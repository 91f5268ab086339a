#include "layers/stack.h"

#include "layers/positions/decoupled.h"
#include "layers/positions/randomized.h"

namespace ropewalk {
namespace {

std::unique_ptr<PositionScheme> make_counted_scheme(const ArchitectureConfig& config, DType dtype) {
  const PositionSizes sizes{.n_heads = config.model.n_heads,
                            .d_model = config.model.d_model,
                            .d_head = rotary_width(config.model, config.attention),
                            .causal = config.attention.causal,
                            .dtype = dtype};
  auto scheme = make_position_scheme(config.position, sizes);
  const bool stream = config.attention.kind == AttentionKind::mla && config.attention.mla_rope_dims > 0;
  if (!stream || scheme->rotation() != nullptr) return scheme;
  PositionConfig rope = config.position;
  rope.encoding = "rope";
  return with_rotation_of(std::move(scheme), make_position_scheme(rope, sizes));
}

std::unique_ptr<PositionScheme> make_scheme(const ArchitectureConfig& config, DType dtype) {
  auto scheme = make_counted_scheme(config, dtype);
  const int64_t limit = config.position.randomize_to;
  return limit > 0 ? with_random_positions(std::move(scheme), limit) : std::move(scheme);
}

}  // namespace

Stack Stack::declare(const Declarations& declarations, const ArchitectureConfig& config, DType dtype, bool crosses) {
  const ModelConfig& model = config.model;
  Stack stack{.scheme = make_scheme(config, dtype), .final_norm_name = declarations.prefix + "final_norm"};
  if (config.attention.pattern == AttentionPattern::top_k)
    stack.index_rotation = ropewalk::index_rotation(config, dtype);
  stack.scheme->declare(declarations);
  for (int64_t i = 0; i < model.n_layers; ++i) {
    stack.blocks.push_back(Block::declare(declarations, i, config, *stack.scheme, crosses));
  }
  stack.has_final_norm = model.norm_placement == NormPlacement::pre || model.norm_placement == NormPlacement::sandwich;
  if (stack.has_final_norm) stack.final_norm = NormLayer::declare(declarations, "final_norm", model);
  return stack;
}

void Stack::prepare(const PassPositions& positions) {
  scheme->prepare(positions);
  if (index_rotation != nullptr) index_rotation->prepare(positions);
}

Var Stack::forward(ForwardPass& pass, Var x) const {
  pass.index_rotation = index_rotation != nullptr ? index_rotation->rotation() : nullptr;
  const bool inference = pass.tape.mode() == Mode::inference;
  const auto keep = [&] {
    if (pass.trace.residuals == nullptr) return;
    pass.tape.retain_gradient(x);
    pass.trace.residuals->push_back(x);
  };
  const bool keeps =
      pass.trace.residuals != nullptr || pass.trace.selected != nullptr || pass.index_training.losses != nullptr;
  const Arena::Mark mark = pass.tape.arena().mark();
  for (const Block& block : blocks) {
    keep();
    x = block.forward(pass, *scheme, x);
    // Nothing of a block but its result outlives it without a backward pass, and that takes the place of the result
    // before; a deep model then runs in the memory of one block.
    if (inference && !keeps) x = pass.tape.keep_only(mark, x);
  }
  keep();
  if (pass.cache != nullptr) pass.cache->advance(pass.length);
  pass.tape.enter_module(final_norm_name.c_str());
  return has_final_norm ? final_norm.forward(x) : x;
}

}  // namespace ropewalk
