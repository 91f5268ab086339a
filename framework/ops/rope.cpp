#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/rope.cpp"
#include <hwy/foreach_target.h>

#include "framework/simd-inl.h"

#include <algorithm>
#include <cmath>

#include "framework/for_type.h"
#include "framework/ops/checks.h"
#include "framework/ops/rope.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

// y = x rotated; `row` is room for one row, used where the result is added to what is there.
template <class T>
void rotate(const T* x, const T* cos, const T* sin, int64_t heads, int64_t length, int64_t width, int64_t dims,
            RopePairing pairing, bool inverse, T* row, GradientSink<T> y) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < length; ++t) {
      const int64_t at = (h * length + t) * width;
      T* to = y.accumulate ? row : y.data + at;
      std::copy(x + at, x + at + width, to);
      rotate_row(to, cos + t * (dims / 2), sin + t * (dims / 2), dims, pairing, inverse);
      if (!y.accumulate) continue;
      vectorise<T>(width,
                   [&](auto d, int64_t i) HWY_ATTR { store_or_add(d, true, hn::LoadU(d, row + i), y.data + at + i); });
    }
  }
}

constexpr auto& RotateF32 = rotate<float>;
constexpr auto& RotateF64 = rotate<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(RotateF32);
HWY_EXPORT(RotateF64);

template <class PositionOf>
RotaryTable make_table(std::span<const double> inverse_frequencies, double attention_factor, int64_t count,
                       PositionOf&& position_of, RopePairing pairing, DType dtype, const RotaryScale& scale) {
  const auto half = static_cast<int64_t>(inverse_frequencies.size());
  const bool scaled = !scale.rates.empty();
  require(!scaled || scale.rates.size() == inverse_frequencies.size(), "rope: {} rates of scaling for {} pairs",
          scale.rates.size(), half);
  const Shape shape{count, half};
  RotaryTable table{
      .pairing = pairing, .dims = 2 * half, .cos = Tensor::zeros(shape, dtype), .sin = Tensor::zeros(shape, dtype)};
  table.key_cos = scaled ? Tensor::zeros(shape, dtype) : table.cos;
  table.key_sin = scaled ? Tensor::zeros(shape, dtype) : table.sin;
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const auto pair = static_cast<std::size_t>(i);
      const auto position = static_cast<double>(position_of(t));
      const double angle = position * inverse_frequencies[pair];
      const double growth = scaled ? std::exp(scale.rates[pair] * (position - scale.centre)) : 1.0;
      table.cos.set(t * half + i, std::cos(angle) * attention_factor * growth);
      table.sin.set(t * half + i, std::sin(angle) * attention_factor * growth);
      if (!scaled) continue;
      table.key_cos.set(t * half + i, std::cos(angle) * attention_factor / growth);
      table.key_sin.set(t * half + i, std::sin(angle) * attention_factor / growth);
    }
  }
  return table;
}

}  // namespace

RotaryTable make_rotary_table(std::span<const double> inverse_frequencies, double attention_factor, int64_t start,
                              int64_t count, RopePairing pairing, DType dtype, const RotaryScale& scale) {
  require(start >= 0 && count >= 0, "rope: a table of {} positions from {} on", count, start);
  const auto position_of = [&](int64_t t) { return start + t; };
  return make_table(inverse_frequencies, attention_factor, count, position_of, pairing, dtype, scale);
}

RotaryTable make_rotary_table(std::span<const double> inverse_frequencies, double attention_factor,
                              std::span<const int32_t> positions, RopePairing pairing, DType dtype,
                              const RotaryScale& scale) {
  const auto position_of = [&](int64_t t) { return positions[static_cast<std::size_t>(t)]; };
  const auto count = static_cast<int64_t>(positions.size());
  return make_table(inverse_frequencies, attention_factor, count, position_of, pairing, dtype, scale);
}

Var rope(Var x, const RotaryTable& table, RotarySide side) {
  const Tensor& cosines = side == RotarySide::queries ? table.cos : table.key_cos;
  const Tensor& sines = side == RotarySide::queries ? table.sin : table.key_sin;
  check_shape("rope: x", x.shape(), {-1, -1, -1, -1});
  const int64_t heads = x.shape()[0] * x.shape()[1];
  const int64_t length = x.shape()[2];
  const int64_t width = x.shape()[3];
  const int64_t dims = table.dims;
  const RopePairing pairing = table.pairing;
  require(dims >= 0 && dims % 2 == 0 && dims <= width, "rope: {} columns of heads of width {} are to be rotated", dims,
          width);
  check_shape("rope: cosines", cosines.shape, {-1, dims / 2});
  check_shape("rope: sines", sines.shape, {cosines.shape[0], dims / 2});
  require(cosines.shape[0] >= length, "rope: a table of {} positions for sequences of {}", cosines.shape[0], length);
  require(cosines.dtype == x.dtype() && sines.dtype == x.dtype(), "rope: a table in {} for values in {}",
          name_of(cosines.dtype), name_of(x.dtype()));
  Tape& tape = *x.tape;
  const Tensor y = tape.allocate(x.shape(), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    auto& rotate = for_type<T>(HWY_DYNAMIC_DISPATCH(RotateF32), HWY_DYNAMIC_DISPATCH(RotateF64));
    const T* cos = cosines.data<T>();
    const T* sin = sines.data<T>();
    rotate(x.value().data<T>(), cos, sin, heads, length, width, dims, pairing, false, nullptr,
           GradientSink<T>{y.data<T>(), false});
    return tape.record("rope", y, {x}, [=](Tape& t, Var result) {
      const GradientSink<T> dx = t.gradient_sink<T>(x);
      if (!dx) return;
      T* row = t.arena().allocate<T>(static_cast<std::size_t>(width));
      rotate(t.gradient<T>(result), cos, sin, heads, length, width, dims, pairing, true, row, dx);
    });
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
