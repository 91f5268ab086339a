#include "framework/tensor.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "framework/error.h"

namespace ropewalk {
namespace {

TEST(ShapeTest, CountsElementsAndRows) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape.with_last(7), (Shape{2, 3, 7}));
  EXPECT_EQ(shape.to_string(), "[2, 3, 4]");
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_FALSE(shape == (Shape{2, 3}));
}

TEST(ShapeTest, RefusesAbsurdExtents) {
  EXPECT_THROW((Shape{-1}), Error);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW((Shape{int64_t{1} << 40, int64_t{1} << 40}), Error);
}

TEST(TensorTest, IsZeroedAlignedAndShared) {
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = Tensor::zeros({3, 5}, dtype);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.bytes) % 64, 0U);
    for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(x.at(i), 0.0);
    const Tensor view = x.reshaped({15});
    view.set(14, 2.5);
    EXPECT_EQ(x.at(14), 2.5);
    EXPECT_THROW(x.reshaped({16}), Error);
    EXPECT_EQ(x.size_bytes(), 15 * size_of(dtype));
  }
}

TEST(TensorTest, CheckShapeNamesWhatIsWrong) {
  EXPECT_NO_THROW(check_shape("weight", {2, 3}, {-1, 3}));
  try {
    check_shape("weight", {2, 3}, {-1, 4});
    ADD_FAILURE() << "accepted a wrong shape";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "weight has shape [2, 3], expected [any, 4]");
  }
}

}  // namespace
}  // namespace ropewalk
