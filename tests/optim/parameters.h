#pragma once

#include <cstdint>
#include <random>

#include "framework/parameter.h"

namespace ropewalk::testing {

/// Parameters of every role and of odd sizes, so that full vectors, remainders, more than one block and the gaps of the
/// flat layout all occur.
inline ParameterSet odd_parameters(DType dtype) {
  ParameterSet set;
  set.add("token_embedding.weight", {37, 29}, Role::weight);
  set.add("norm.weight", {7}, Role::other);
  set.add_adjacent({Parameter{.name = "query.weight", .shape = {3, 5}, .role = Role::weight},
                    Parameter{.name = "key.weight", .shape = {1, 1}, .role = Role::weight},
                    Parameter{.name = "value.weight", .shape = {19, 9}, .role = Role::weight}});
  set.add("kerple.amplitude", {5}, Role::positive, 0.01);
  set.add("kerple.rate", {130}, Role::positive, 0.25);
  set.add("query.bias", {33}, Role::other);
  set.allocate(dtype);
  return set;
}

/// Normal numbers times `scale` in the elements of every parameter; the gaps are left alone.
inline void fill_normal(const ParameterSet& set, const Tensor& flat, uint64_t seed, double scale) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  for (const Parameter& parameter : set.all()) {
    for (int64_t i = 0; i < parameter.elements(); ++i) flat.set(parameter.offset + i, scale * normal(engine));
  }
}

/// The index of the parameter that owns an element of a flat buffer, or -1 in a gap.
inline int owner(const ParameterSet& set, int64_t element) {
  for (int32_t i = 0; i < static_cast<int32_t>(set.size()); ++i) {
    if (element >= set[i].offset && element < set[i].offset + set[i].elements()) return i;
  }
  return -1;
}

}  // namespace ropewalk::testing
