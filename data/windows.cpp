#include "data/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/batch.h"
#include "data/error.h"

namespace ropewalk {
namespace {

/// Places as many disjoint stretches of `size` tokens to be predicted as `tokens` pays for (at least one) evenly from
/// token `first` to the end of the text. Returns the first token of each.
std::vector<int64_t> place_stretches(const WindowRequest& request, int64_t first, int64_t size) {
  const int64_t room = request.held_out - first - size;  // how far the last stretch can move
  if (room < 0) {
    throw DataError(
        fmt::format("the held-out text has {} tokens, evaluation at length {} needs {}; shorten eval.lengths or raise "
                    "data.validation_fraction",
                    request.held_out, std::ranges::max(request.lengths), first + size));
  }
  const int64_t count = std::clamp<int64_t>(request.tokens / size, 1, room / size + 1);
  if (count == 1) return {first + room / 2};
  std::vector<int64_t> starts;
  starts.reserve(static_cast<std::size_t>(count));
  // room * i / (count - 1) for i = 0, 1, ..., by carrying the remainder: the product might overflow.
  const int64_t gaps = count - 1;
  int64_t start = first;
  int64_t remainder = 0;
  for (int64_t i = 0; i < count; ++i) {
    starts.push_back(start);
    start += room / gaps;
    remainder += room % gaps;
    if (remainder >= gaps) {
      remainder -= gaps;
      ++start;
    }
  }
  return starts;
}

/// Cuts each stretch into windows of `length` that score their last `stride` tokens.
std::vector<Window> cover(std::span<const int64_t> stretches, int64_t size, int64_t length, int64_t stride) {
  std::vector<Window> windows;
  windows.reserve(stretches.size() * (size / stride));
  for (const int64_t stretch : stretches) {
    for (int64_t scored = 0; scored + stride <= size; scored += stride) {
      const int64_t end = stretch + scored + stride;  // of the tokens predicted, which lie one after those read
      windows.push_back({end - 1 - length, length, length - stride});
    }
  }
  return windows;
}

void check_lengths(const WindowRequest& request, int64_t length) {
  if (request.lengths.empty()) throw DataError("eval.lengths is empty; give at least one window length");
  const auto [shortest, longest] = std::ranges::minmax(request.lengths);
  if (shortest < 1 || length < 1) {
    throw DataError(fmt::format("eval.lengths holds {}; lengths are at least 1", std::min(shortest, length)));
  }
  if (length > longest) {
    throw DataError(
        fmt::format("evaluation at length {}, longer than the longest of eval.lengths, {}", length, longest));
  }
  if (longest >= request.held_out) {
    throw DataError(
        fmt::format("the held-out text has {} tokens, evaluation at length {} needs {}; shorten eval.lengths or raise "
                    "data.validation_fraction",
                    request.held_out, longest, longest + 1));
  }
  if (request.tokens < 1) throw DataError(fmt::format("eval.tokens = {}: must be at least 1", request.tokens));
}

int64_t stride_of(int64_t length, int64_t stride) {
  return stride == 0 ? std::max<int64_t>(1, length / 2) : stride;
}

}  // namespace

std::vector<Window> same_tokens_windows(const WindowRequest& request, int64_t length, int64_t tail) {
  check_lengths(request, length);
  const auto [shortest, longest] = std::ranges::minmax(request.lengths);
  tail = stride_of(shortest, tail);
  if (tail < 1 || tail > std::min(shortest, length)) {
    throw DataError(
        fmt::format("eval.tail = {}: must be between 1 and the shortest length, {}", tail, std::min(shortest, length)));
  }
  return cover(place_stretches(request, longest - tail + 1, tail), tail, length, tail);
}

std::vector<Window> non_overlapping_windows(const WindowRequest& request, int64_t length) {
  check_lengths(request, length);
  const int64_t longest = std::ranges::max(request.lengths);
  return cover(place_stretches(request, 1, longest), longest, length, length);
}

std::vector<Window> sliding_windows(const WindowRequest& request, int64_t length, int64_t stride) {
  check_lengths(request, length);
  int64_t context = 0;  // the most tokens that any window has before those that it scores
  int64_t size = 0;
  for (const int64_t other : request.lengths) {
    const int64_t step = stride_of(other, stride);
    if (step < 1 || step > other) {
      throw DataError(fmt::format("eval.stride = {}: must be between 1 and the shortest length, {}", step,
                                  std::ranges::min(request.lengths)));
    }
    context = std::max(context, other - step);
    size = std::max(size, step);
  }
  const int64_t own = stride_of(length, stride);
  if (own > length) {
    throw DataError(fmt::format("eval.stride = {}: must be between 1 and the shortest length, {}", own, length));
  }
  return cover(place_stretches(request, context + 1, size), size, length, own);
}

void fill_window(const TokenView& held_out, const Window& window, std::span<int32_t> tokens,
                 std::span<int32_t> targets) {
  held_out.copy(window.start, tokens);
  held_out.copy(window.start + 1, targets);
  std::ranges::fill(targets.first(window.first_scored), kIgnored);
}

}  // namespace ropewalk
