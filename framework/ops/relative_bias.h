#pragma once

#include <cstdint>
#include <span>

#include "framework/tape.h"

namespace ropewalk {

/// Biases that depend on the offset j - i only, as attention wants them: [H, n], one column an offset in rising order.
/// T queries at the end of S keys take n = T + S - 1 offsets from -(S - 1) to T - 1.

/// bias [H, n] with bias(h, c) = table(bucket_of_offset[c], h), for a table [buckets, H] (T5, Raffel et al. 2020).
/// Backward: dtable(bucket, h) += sum of dbias(h, c) over the offsets of the bucket. `bucket_of_offset` outlives the
/// tape.
Var bucket_bias(Var table, std::span<const int32_t> bucket_of_offset);

/// bias(h, c) = -slope_h |o| with o = first_offset + c, for slopes [H] (ALiBi, Press et al. 2022, with learned slopes).
/// Backward: dslope_h -= sum_c dbias |o|.
Var alibi_bias(Var slopes, int64_t first_offset, int64_t n);

/// bias(h, c) = -amplitude_h ln(1 + rate_h |o|) with o = first_offset + c, for amplitude and rate [H] (KERPLE, Chi et
/// al. 2022).
/// Backward: damplitude_h -= sum_c dbias ln(1 + rate |o|),  drate_h -= sum_c dbias amplitude |o| / (1 + rate |o|).
Var kerple_bias(Var amplitude, Var rate, int64_t first_offset, int64_t n);
/// The same over n = 2 T - 1 offsets around 0, those of T queries on T keys.
inline Var kerple_bias(Var amplitude, Var rate, int64_t n) {
  return kerple_bias(amplitude, rate, -(n - 1) / 2, n);
}

/// bias(h, c) = scale (v_h - u_h) . relative_keys(c)_h, for relative keys [n, H d] as attention wants them and vectors
/// u and v [H, d]. Attention adds u to its queries; with this bias their products with relative keys are those of
/// queries to which v is added (Transformer-XL, Dai et al. 2019). Backward: dv_h += scale sum_c dbias
/// relative_keys(c)_h,  du_h -= the same,
///   drelative_keys(c)_h += scale dbias (v_h - u_h).
Var relative_key_bias(Var relative_keys, Var u, Var v, double scale);

}  // namespace ropewalk
