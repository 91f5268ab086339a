#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/tokens.h"

namespace ropewalk {

/// A piece of held-out text to be evaluated: the model reads tokens [start, start + length) and position p predicts
/// token start + p + 1; positions from first_scored on count.
struct Window {
  int64_t start = 0;
  int64_t length = 0;
  int64_t first_scored = 0;

  int64_t scored() const { return length - first_scored; }
  bool operator==(const Window&) const = default;
};

/// What all lengths of an evaluation share. Each protocol lays disjoint stretches of tokens to be predicted evenly over
/// the held-out text, the same for all lengths, and covers them with windows of one length; so lengths are compared on
/// one text, not each on its own excerpt.
struct WindowRequest {
  int64_t held_out = 0;              ///< tokens of the held-out text
  std::span<const int64_t> lengths;  ///< all window lengths that will be compared
  int64_t tokens = 16384;            ///< scored tokens a length, at most (but at least one stretch)
};

// Windows of `length` (which may be at most the greatest of request.lengths) under a protocol, in the order of the
// text. All throw DataError, with the numbers, for lengths below 1, lengths that the protocol cannot have, and held-out
// text too short for the longest window (which needs length + 1 tokens).

/// Windows of all lengths end at the same tokens and score only their last `tail` ones: what differs is the context
/// before them. tail = 0: half the shortest length. tail may be at most the shortest length.
std::vector<Window> same_tokens_windows(const WindowRequest& request, int64_t length, int64_t tail);

/// Stretches as long as the longest window, each cut into windows that score all of their tokens. Where the length does
/// not divide the stretch, the rest of it is left out. Longer windows look better here: fewer of their tokens stand
/// early.
std::vector<Window> non_overlapping_windows(const WindowRequest& request, int64_t length);

/// Windows move by `stride` and score their last `stride` tokens, each of which therefore has at least length - stride
/// tokens before it in the window; the first tokens of the text, which cannot have them, are never scored. stride = 0:
/// half of each length. Stretches are as long as the greatest stride.
std::vector<Window> sliding_windows(const WindowRequest& request, int64_t length, int64_t stride);

/// The tokens of a window and its targets, kIgnored before first_scored. Both spans have the length of the window.
void fill_window(const TokenView& held_out, const Window& window, std::span<int32_t> tokens,
                 std::span<int32_t> targets);

}  // namespace ropewalk
