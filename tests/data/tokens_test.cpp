#include "data/tokens.h"

#include <gtest/gtest.h>

namespace ropewalk {
namespace {

class TokenStoreOf : public testing::TestWithParam<int64_t> {};

TEST_P(TokenStoreOf, KeepsIdsUpToTheLastOfItsVocabulary) {
  const auto last = static_cast<int32_t>(GetParam() - 1);
  TokenStore store(GetParam());
  for (const int32_t id : {0, last, 1, last}) store.append(id);
  ASSERT_EQ(store.size(), 4);
  EXPECT_EQ(store.at(1), last);
  std::vector<int32_t> out(2);
  TokenView{&store, 1, 3}.copy(1, out);
  EXPECT_EQ(out, (std::vector<int32_t>{1, last}));
  EXPECT_EQ((TokenView{&store, 1, 3}.at(2)), last);
}

INSTANTIATE_TEST_SUITE_P(Vocabulary, TokenStoreOf, testing::Values(2, 256, 65536, 65537, 2147483647));

}  // namespace
}  // namespace ropewalk
