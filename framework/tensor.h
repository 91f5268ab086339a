#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace ropewalk {

enum class DType : uint8_t { f32, f64 };
enum class Device : uint8_t { cpu, cuda };

/// True where the build contains the CUDA kernels; ops choose their device by `if constexpr (kHasCuda)`.
#ifdef ROPEWALK_HAS_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

constexpr std::size_t size_of(DType dtype) {
  return dtype == DType::f32 ? 4 : 8;
}
constexpr std::string_view name_of(DType dtype) {
  return dtype == DType::f32 ? "f32" : "f64";
}

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}

/// Calls f.template operator()<float>() or <double>(), as the dtype says.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  return dtype == DType::f32 ? f.template operator()<float>() : f.template operator()<double>();
}

/// The extents of a tensor, outermost first; at most kMaxRank of them.
class Shape {
 public:
  static constexpr int kMaxRank = 5;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);

  int rank() const { return rank_; }
  /// Extent of axis i; negative i counts from the last axis.
  int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i < 0 ? rank_ + i : i)]; }
  int64_t elements() const { return elements_; }
  /// Product of all extents but the last: the rows of a matrix whose columns are the last axis.
  int64_t rows() const { return rank_ == 0 || (*this)[-1] == 0 ? 1 : elements_ / (*this)[-1]; }
  void append(int64_t dim);
  /// The same extents with the last one replaced.
  Shape with_last(int64_t dim) const;
  std::string to_string() const;
  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
  int64_t elements_ = 1;
};

/// A contiguous, row-major view of memory that it shares (storage set) or that an arena owns (storage empty: valid
/// until the tape that made it ends).
struct Tensor {
  Shape shape;
  DType dtype = DType::f32;
  Device device = Device::cpu;
  void* bytes = nullptr;
  std::shared_ptr<void> storage;

  /// Zero-filled, 64-byte aligned, shared storage.
  static Tensor zeros(const Shape& shape, DType dtype);

  template <class T>
  T* data() const {
    return static_cast<T*>(bytes);
  }
  int64_t elements() const { return shape.elements(); }
  std::size_t size_bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  /// Element i in row-major order, as double whatever the dtype.
  double at(int64_t i) const { return dtype == DType::f32 ? data<float>()[i] : data<double>()[i]; }
  void set(int64_t i, double value) const;
  /// The same memory under another shape of as many elements.
  Tensor reshaped(const Shape& other) const;
};

/// Throws unless `shape` has exactly the extents wanted; -1 stands for any.
void check_shape(std::string_view what, const Shape& shape, std::initializer_list<int64_t> wanted);

}  // namespace ropewalk
