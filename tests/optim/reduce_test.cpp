#include "optim/reduce.h"

#include <gtest/gtest.h>

#include "framework/error.h"

namespace ropewalk {
namespace {

TEST(AddInto, AddsEveryElementAndNothingBeyond) {
  for (DType dtype : {DType::f32, DType::f64}) {
    for (int64_t n : {0, 1, 3, 8, 31, 64, 1001}) {
      const Tensor whole = Tensor::zeros({n + 1}, dtype);
      const Tensor lane = Tensor::zeros({n}, dtype);
      Tensor total = whole;
      total.shape = {n};
      for (int64_t i = 0; i < n; ++i) {
        total.set(i, static_cast<double>(i) * 0.5);
        lane.set(i, 1.0 - static_cast<double>(i));
      }
      whole.set(n, 77);
      add_into(total, lane);
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(total.at(i), 1.0 - static_cast<double>(i) * 0.5);
        EXPECT_EQ(lane.at(i), 1.0 - static_cast<double>(i));
      }
      EXPECT_EQ(whole.at(n), 77);
    }
  }
}

TEST(AddInto, RefusesBuffersThatDoNotMatch) {
  EXPECT_THROW(add_into(Tensor::zeros({4}, DType::f32), Tensor::zeros({5}, DType::f32)), Error);
  EXPECT_THROW(add_into(Tensor::zeros({4}, DType::f32), Tensor::zeros({4}, DType::f64)), Error);
}

}  // namespace
}  // namespace ropewalk
