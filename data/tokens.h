#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace ropewalk {

/// A long sequence of token ids in the smaller of 16 and 32 bits each that holds its vocabulary.
class TokenStore {
 public:
  /// For ids in [0, vocab_size).
  explicit TokenStore(int64_t vocab_size = 0) {
    if (vocab_size > int64_t{1} << 16) ids_ = std::vector<uint32_t>();
  }

  int64_t size() const {
    return std::visit([](const auto& ids) { return static_cast<int64_t>(ids.size()); }, ids_);
  }
  void reserve(int64_t n) {
    std::visit([n](auto& ids) { ids.reserve(static_cast<std::size_t>(n)); }, ids_);
  }
  void append(int32_t id) {
    std::visit([id](auto& ids) { ids.push_back(static_cast<typename std::decay_t<decltype(ids)>::value_type>(id)); },
               ids_);
  }

  /// out[i] = the token at begin + i. Precondition: begin + out.size() <= size().
  void copy(int64_t begin, std::span<int32_t> out) const {
    std::visit(
        [&](const auto& ids) {
          for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int32_t>(ids[begin + i]);
        },
        ids_);
  }
  int32_t at(int64_t i) const {
    return std::visit([i](const auto& ids) { return static_cast<int32_t>(ids[i]); }, ids_);
  }

 private:
  std::variant<std::vector<uint16_t>, std::vector<uint32_t>> ids_;
};

/// A stretch of a TokenStore, which must outlive it.
struct TokenView {
  const TokenStore* store = nullptr;
  int64_t begin = 0;
  int64_t size = 0;

  int32_t at(int64_t i) const { return store->at(begin + i); }
  void copy(int64_t first, std::span<int32_t> out) const { store->copy(begin + first, out); }
};

}  // namespace ropewalk
