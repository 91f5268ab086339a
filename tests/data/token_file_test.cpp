#include "data/token_file.h"

#include "tests/data/support.h"

namespace ropewalk {
namespace {

std::vector<uint32_t> ids_of(const std::string& content, const std::string& dtype) {
  const TokenFileLayout layout = token_file_layout(content, "f.bin", dtype);
  std::vector<uint32_t> ids;
  for (int64_t i = 0; i < layout.count; ++i) ids.push_back(token_file_id(content, layout, i));
  return ids;
}

std::string refusal(const std::string& content, const std::string& dtype = "auto") {
  return data_error([&] { token_file_layout(content, "f.bin", dtype); });
}

TEST(TokenFile, ReadsRawIdsOfBothWidths) {
  const std::vector<uint32_t> ids = {1, 65535, 0};
  EXPECT_EQ(ids_of(pack(ids, 2), "auto"), ids);
  EXPECT_EQ(ids_of(pack(ids, 2), "uint16"), ids);
  EXPECT_EQ(ids_of(pack({70000, 4294967295U}, 4), "uint32"), (std::vector<uint32_t>{70000, 4294967295U}));
}

TEST(TokenFile, ReadsLlmCShards) {
  EXPECT_EQ(ids_of(llm_c_file(20240520, 1, 2, {50256, 3}, 2), "auto"), (std::vector<uint32_t>{50256, 3}));
  EXPECT_EQ(ids_of(llm_c_file(20240801, 7, 2, {128000, 3}, 4), "auto"), (std::vector<uint32_t>{128000, 3}));
}

TEST(TokenFile, AnExplicitTypeReadsTheHeaderAsIds) {
  EXPECT_EQ(ids_of(llm_c_file(20240520, 1, 2, {5, 6}, 2), "uint16").size(), 512U + 2U);
}

TEST(TokenFile, RefusesBrokenHeaders) {
  EXPECT_TRUE(contains(refusal(llm_c_file(20240520, 2, 1, {5}, 2)), {"f.bin", "version 2", "version 1"}));
  EXPECT_TRUE(contains(refusal(llm_c_file(20240801, 1, 1, {5}, 4)), {"f.bin", "version 1", "version 7"}));
  EXPECT_TRUE(contains(refusal(llm_c_file(20240520, 1, 3, {5, 6}, 2)), {"f.bin", "3 tokens", "1030", "1028"}));
  EXPECT_TRUE(contains(refusal(llm_c_file(20240520, 1, 1, {5, 6}, 2)), {"f.bin", "1 tokens", "1026", "1028"}));
  EXPECT_TRUE(contains(refusal(llm_c_file(20240520, 1, 0x7FFFFFFF, {5}, 2)), {"2147483647 tokens"}));
  EXPECT_TRUE(contains(refusal(llm_c_file(20240520, 1, 0xFFFFFFFF, {5}, 2)), {"-1 tokens"}));
  EXPECT_TRUE(contains(refusal(llm_c_file(20240520, 1, 0, {}, 2)), {"no tokens"}));
  EXPECT_TRUE(contains(refusal(llm_c_file(20240520, 1, 0, {}, 2).substr(0, 1000)), {"1000 bytes", "1024"}));
}

TEST(TokenFile, RefusesPartsOfIds) {
  EXPECT_TRUE(contains(refusal("abc"), {"f.bin", "3 bytes", "uint16"}));
  EXPECT_TRUE(contains(refusal("abcdef", "uint32"), {"f.bin", "6 bytes", "uint32"}));
}

TEST(TokenFile, RefusesOtherFormatsAndTypes) {
  EXPECT_TRUE(contains(refusal(std::string("\x93NUMPY\x01\x00", 8)), {"f.bin", "NumPy"}));
  EXPECT_TRUE(contains(refusal(std::string("\x1F\x8B\x08\x00", 4)), {"f.bin", "gzip"}));
  EXPECT_TRUE(contains(refusal(std::string("MMIDIDX\0\0\0", 10)), {"f.bin", "Megatron"}));
  EXPECT_TRUE(contains(refusal(pack({278895051, 1}, 4)), {"f.bin", "NeMo"}));
  EXPECT_TRUE(contains(refusal("ab", "int8"), {"token_dtype", "int8"}));
}

}  // namespace
}  // namespace ropewalk
