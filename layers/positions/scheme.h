#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/ops/attention.h"
#include "framework/ops/embedding.h"
#include "framework/tape.h"
#include "layers/config.h"
#include "layers/declare.h"
#include "layers/positions/kept_tables.h"
#include "layers/positions/options.h"
#include "layers/positions/pass_positions.h"

namespace ropewalk {

/// The sizes of the model that a position scheme serves.
struct PositionSizes {
  int64_t n_heads = 0;
  int64_t d_model = 0;
  int64_t d_head = 0;
  bool causal = true;
  DType dtype = DType::f32;
};

/// For which block, in which pass, a scheme is asked.
struct BlockPass {
  Tape& tape;
  int64_t block = 0;
  KeptTables* kept = nullptr;  ///< of this block: tables that outlive the pass; null: there is no use for them
};

/// How a model learns where its tokens stand: up to four hooks, each optional.
///
/// A scheme declares its parameters once, prepares tables for a length before a pass of that length (the only call that
/// changes it), and then serves any number of tapes at once.
class PositionScheme {
 public:
  virtual ~PositionScheme() = default;

  /// Parameters of the whole model, and of the attention of one block (`prefix` = "blocks.I.attention").
  virtual void declare(const Declarations&) {}
  virtual void declare_in_block(const Declarations&, const std::string& prefix) { (void)prefix; }

  /// Tables for passes of exactly these positions, those of a cache among them.
  virtual void prepare(const PassPositions& positions) { (void)positions; }

  /// Hook 1: adds positions to the embedded tokens x [B, T, d_model].
  virtual Var embed(Var x, const TokenPlaces& places) const { return (void)places, x; }
  /// Hook 2: the table by which attention rotates queries and keys, or null.
  virtual const RotaryTable* rotation() const { return nullptr; }
  /// Hook 3: sets the biases and relative vectors of the options for one block.
  virtual void bias(const BlockPass& pass, AttentionOptions& options) const { (void)pass, (void)options; }
  /// Hook 4: the longest sequence it can serve; 0: no limit.
  virtual int64_t greatest_length() const { return 0; }
  /// What sets that, for messages: "position.max_length".
  virtual std::string limited_by() const { return {}; }
  /// Whether a position means something else in a longer sequence, so that sequences of unequal length cannot share a
  /// pass.
  virtual bool depends_on_length() const { return false; }
};

/// A row of the table of schemes: what the configuration sees, and how to make one of options that pass its check, with
/// derived values filled in.
struct PositionSchemeRow {
  PositionSchemeInfo info;
  std::function<std::unique_ptr<PositionScheme>(const PositionConfig&, const PositionSizes&)> make;
};

/// Every scheme, in the order of help texts and reports.
const std::vector<PositionSchemeRow>& position_schemes();

/// The scheme named by config.encoding. Throws Error for an unknown name.
std::unique_ptr<PositionScheme> make_position_scheme(const PositionConfig& config, const PositionSizes& sizes);

}  // namespace ropewalk
