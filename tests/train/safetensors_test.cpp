#include "train/safetensors.h"

#include <cstring>
#include <random>

#include "storage_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

const std::vector<float> kWeights = {1.5F, -2, 3, 4, 5, 6};
const std::vector<int64_t> kCounters = {1, -2};
const std::vector<double> kMoments = {0.1};

void write_example(const std::string& path) {
  write_safetensors(path,
                    {{"blocks.0.ffn.up.weight", "F32", {2, 3}, kWeights.data()},
                     {"counters", "I64", {2}, kCounters.data()},
                     {"a.scalar", "F64", {}, kMoments.data()},
                     {"nothing", "F32", {0, 7}, nullptr}},
                    {{"step", "12"}, {"note", "\xc3\xa9\n"}});
}

/// A file of the layout with this header and data, no checksum.
std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

TEST(Safetensors, ReadsBackWhatWasWritten) {
  const TemporaryDirectory dir;
  write_example(dir / "a.safetensors");
  const SafetensorsFile file = read_safetensors(dir / "a.safetensors");
  EXPECT_EQ(file.metadata().at("note"), "\xc3\xa9\n");
  ASSERT_EQ(file.tensors().size(), 4U);
  const StoredTensor& weights = file.tensor("blocks.0.ffn.up.weight");
  EXPECT_EQ(weights.dtype, "F32");
  EXPECT_EQ(weights.shape, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(weights.data.size(), 24U);
  EXPECT_EQ(std::memcmp(weights.data.data(), kWeights.data(), 24), 0);
  EXPECT_EQ(std::memcmp(file.tensor("counters").data.data(), kCounters.data(), 16), 0);
  EXPECT_TRUE(file.tensor("a.scalar").shape.empty());
  EXPECT_TRUE(file.tensor("nothing").data.empty());
  EXPECT_THROW((void)file.tensor("other"), CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(dir / "a.safetensors.tmp"));
}

TEST(Safetensors, TheLayoutIsThatOfTheFormat) {
  const TemporaryDirectory dir;
  write_example(dir / "a.safetensors");
  const std::string bytes = read_text(dir / "a.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  EXPECT_EQ(bytes[8], '{');
  EXPECT_EQ(bytes.size(), 8 + length + 24 + 16 + 8);
  EXPECT_EQ(std::memcmp(bytes.data() + 8 + length, kWeights.data(), 24), 0);
  EXPECT_NE(bytes.find(R"("blocks.0.ffn.up.weight":{"data_offsets":[0,24],"dtype":"F32","shape":[2,3]})"),
            std::string::npos);
}

TEST(Safetensors, EveryFlippedByteIsNoticed) {
  const TemporaryDirectory dir;
  write_example(dir / "a.safetensors");
  const std::string whole = read_text(dir / "a.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, whole.data(), 8);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (i >= 8 && i < 8 + length && whole[i] == ' ') continue;  // padding may become other white space
    for (const int flip : {1, 0x20, 0x80}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      write_text(dir / "b.safetensors", bytes);
      try {
        // Only a damaged key of the checksum itself makes this a file without one, which checkpoints refuse.
        EXPECT_EQ(read_safetensors(dir / "b.safetensors").metadata().count("checksum"), 0U) << "byte " << i;
      } catch (const CheckpointError& error) {
        EXPECT_NE(std::string(error.what()).find("b.safetensors"), std::string::npos);
      }
    }
  }
}

TEST(Safetensors, EveryTruncationAndTrailingByteIsNoticed) {
  const TemporaryDirectory dir;
  write_example(dir / "a.safetensors");
  const std::string whole = read_text(dir / "a.safetensors");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_text(dir / "b.safetensors", whole.substr(0, size));
    EXPECT_THROW(read_safetensors(dir / "b.safetensors"), CheckpointError) << size;
  }
  write_text(dir / "b.safetensors", whole + "x");
  EXPECT_NE(message_of<CheckpointError>([&] { read_safetensors(dir / "b.safetensors"); }).find("1 bytes after"),
            std::string::npos);
}

TEST(Safetensors, RefusesMalformedHeaders) {
  const TemporaryDirectory dir;
  const auto message = [&](const std::string& header, const std::string& data) {
    write_text(dir / "b.safetensors", file_of(header, data));
    return message_of<CheckpointError>([&] { read_safetensors(dir / "b.safetensors"); });
  };
  const auto expect = [&](const std::string& header, const std::string& data, const std::string& reason) {
    const std::string text = message(header, data);
    EXPECT_NE(text.find(reason), std::string::npos) << text;
  };
  expect("[]", "", "no JSON object");
  expect("{", "", "not JSON");
  expect(std::string(1000000, '['), "", "not JSON");
  expect("{\"a\":" + std::string(200000, '[') + std::string(200000, ']') + "}", "", "no JSON object of tensors");
  expect(R"({"a":1})", "", "lacks dtype");
  expect(R"({"a":{"dtype":"Q9","shape":[1],"data_offsets":[0,4]}})", "1234", "dtype \"Q9\"");
  expect(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234", "malformed shape");
  expect(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", "1234", "malformed shape");
  expect(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234", "not what its shape asks for");
  expect(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", "", "not what its shape");
  expect(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234", "lies at bytes");
  expect(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "1234", "lies at bytes");
  expect(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1234", "malformed data_offsets");
  expect(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678", "gap");
  expect(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      "1234", "overlaps");
  expect(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      "1234", "'a' twice");
  expect(R"({"__metadata__":{"a":1}})", "", "no string");
  write_text(dir / "b.safetensors", std::string(8, '\xff') + "{}");
  EXPECT_THROW(read_safetensors(dir / "b.safetensors"), CheckpointError);
  write_text(dir / "b.safetensors", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  EXPECT_EQ(read_safetensors(dir / "b.safetensors").tensors().size(), 1U);  // as other programs write it
}

TEST(Safetensors, WriterRefusesWhatItCannotStore) {
  const TemporaryDirectory dir;
  const float x = 1;
  EXPECT_THROW(write_safetensors(dir / "a", {{"x", "F16", {1}, &x}}, {}), CheckpointError);
  EXPECT_THROW(write_safetensors(dir / "a", {{"x", "F32", {-1}, &x}}, {}), CheckpointError);
  EXPECT_THROW(write_safetensors(dir / "a", {{"x", "F32", {1}, &x}, {"x", "F32", {1}, &x}}, {}), CheckpointError);
  EXPECT_THROW(write_safetensors(dir / "a", {{"\xff", "F32", {1}, &x}}, {}), CheckpointError);
  EXPECT_THROW(write_safetensors("/nonexistent/a", {{"x", "F32", {1}, &x}}, {}), CheckpointError);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(Safetensors, TheChecksumSeesEveryBitAndTheOrder) {
  std::mt19937_64 random(3);
  for (const std::size_t size : {1, 7, 8, 31, 32, 33, 100}) {
    std::string data(size, '\0');
    for (char& c : data) c = static_cast<char>(random());
    const uint64_t sum = checksum64(data.data(), size, 1);
    EXPECT_NE(sum, checksum64(data.data(), size, 2));
    for (std::size_t bit = 0; bit < size * 8; ++bit) {
      std::string other = data;
      other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_NE(sum, checksum64(other.data(), size, 1));
    }
  }
  const std::vector<uint64_t> ab = {1, 2, 3, 4, 5, 6, 7, 8}, ba = {2, 1, 3, 4, 5, 6, 7, 8};
  EXPECT_NE(checksum64(ab.data(), 64, 0), checksum64(ba.data(), 64, 0));
  EXPECT_NE(checksum64("\0\0", 1, 0), checksum64("\0\0", 2, 0));
}

TEST(Safetensors, TypesOfOtherProgramsAreReadAndNotWritten) {
  const TemporaryDirectory dir;
  const std::string header =
      R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"BOOL","shape":[3],"data_offsets":[4,7]}})";
  write_text(dir / "a.safetensors", file_of(header, "1234567"));
  const SafetensorsFile file = read_safetensors(dir / "a.safetensors");
  EXPECT_EQ(file.tensor("a").dtype, "BF16");
  EXPECT_EQ(file.tensor("b").data.size(), 3U);
  EXPECT_NE(message_of<CheckpointError>([&] {
              write_safetensors(dir / "b.safetensors", {{"a", "BF16", {2}, kWeights.data()}}, {});
            }).find("use F32, F64 or I64"),
            std::string::npos);
}

TEST(Safetensors, MetadataAreReadWithoutTheTensors) {
  const TemporaryDirectory dir;
  write_example(dir / "a.safetensors");
  const std::string whole = read_text(dir / "a.safetensors");
  const auto metadata = read_safetensors(dir / "a.safetensors").metadata();
  EXPECT_EQ(read_safetensors_metadata(dir / "a.safetensors"), metadata);
  uint64_t length = 0;
  std::memcpy(&length, whole.data(), 8);
  write_text(dir / "b.safetensors", whole.substr(0, 8 + length));
  EXPECT_EQ(read_safetensors_metadata(dir / "b.safetensors"), metadata);
  for (std::size_t size = 0; size < 8 + length; ++size) {
    write_text(dir / "b.safetensors", whole.substr(0, size));
    EXPECT_THROW(read_safetensors_metadata(dir / "b.safetensors"), CheckpointError) << size;
  }
}

}  // namespace
}  // namespace ropewalk
