#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/parameter.h"
#include "framework/tape.h"
#include "layers/config.h"
#include "layers/forward_pass.h"
#include "layers/stack.h"

namespace ropewalk {

/// The sizes that are derived where the configuration says 0, and the checks that need no data.
/// Throws Error naming both keys where sizes contradict each other.
ArchitectureConfig resolved(ArchitectureConfig config);

/// Sources of an encoder-decoder: tokens [sequences, length], of which lengths[b] belong to sequence b and the rest is
/// padding. `lengths` outlives the tape.
struct SourceTokens {
  const int32_t* tokens = nullptr;
  int64_t length = 0;
  std::span<const int64_t> lengths = {};
};

/// A Transformer: embedding, blocks, final norm (pre and sandwich), head. Of model.arch encoder it is the same without
/// a causal mask; an encoder_decoder has a second stack of blocks, whose parameters begin with "encoder.", under the
/// same token embedding, and its decoder's blocks attend to what that makes of a source.
///
/// The parameters carry dotted names ("blocks.0.attention.query.weight"); weights of Linear layers are [out, in].
class Transformer {
 public:
  /// Declares all parameters. Needs vocab_size; memory is taken by allocate().
  Transformer(const ArchitectureConfig& config, DType dtype);

  const ArchitectureConfig& config() const { return config_; }
  DType dtype() const { return dtype_; }
  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }

  /// Reserves the parameters' memory, zero-filled.
  void allocate() { parameters_.allocate(dtype_); }
  /// Draws the first values (see initialize.h).
  void initialize(uint64_t seed);
  /// Makes the position tables for passes of exactly `length`; call it before them, from one thread.
  void prepare(int64_t length, const PositionDraw& draw = {}) { decoder_.prepare({length, draw}); }
  /// The same for sources of exactly `length`.
  void prepare_source(int64_t length, const PositionDraw& draw = {}) { encoder_.value().prepare({length, draw}); }
  /// The longest sequence the position scheme can serve; 0: no limit.
  int64_t greatest_length() const { return decoder_.scheme->greatest_length(); }
  /// What sets that, for messages.
  std::string limited_by() const { return decoder_.scheme->limited_by(); }

  /// Whether sequences of unequal length cannot share a pass (see PositionScheme).
  bool depends_on_length() const { return decoder_.scheme->depends_on_length(); }

  /// A cache for `sequences` sequences of up to `capacity` tokens; see ForwardPass::cache. Throws Error for a model
  /// that is not causal.
  KeyValueCache make_cache(int64_t sequences, int64_t capacity, std::vector<int64_t> padding = {}) const;

  /// tokens [sequences * length] -> the embedded tokens with their positions, [B, T, d_model].
  Var embed(ForwardPass& pass, const int32_t* tokens) const;
  /// The residual stream x [B, T, d_model] through all blocks and the final norm.
  Var blocks(ForwardPass& pass, Var x) const { return decoder_.forward(pass, x); }
  /// Gives the pass of an encoder-decoder the memory of its sources, before the decoder's tokens are embedded.
  void encode(ForwardPass& pass, const SourceTokens& source) const;
  /// Weight of the output layer [vocab_size, d_model]: the token embedding where the two are tied.
  Var head_weight(Tape& tape) const;
  /// Hidden states [.., d_model] -> logits [.., vocab_size].
  Var head(Var hidden) const;
  /// All of the above.
  Var logits(ForwardPass& pass, const int32_t* tokens) const { return head(blocks(pass, embed(pass, tokens))); }
  /// The cross-entropy of all positions, a scalar; the logits are never stored whole. See linear_cross_entropy().
  Var loss(ForwardPass& pass, const int32_t* tokens, const int32_t* targets, double normalizer,
           double label_smoothing = 0.0) const;

 private:
  Var embed_with(const PositionScheme& scheme, ForwardPass& pass, const int32_t* tokens) const;

  ArchitectureConfig config_;
  DType dtype_;
  ParameterSet parameters_;
  std::vector<InitRule> rules_;
  int32_t token_embedding_ = -1;
  std::optional<Stack> encoder_;  ///< of an encoder_decoder
  Stack decoder_;                 ///< or the encoder, where that is all
  int32_t lm_head_ = -1;          ///< -1: tied to the token embedding
};

}  // namespace ropewalk
