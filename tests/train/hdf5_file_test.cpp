#include "train/hdf5_file.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "storage_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

using Shape = std::vector<uint64_t>;

TEST(Hdf5File, ReadsGroupsDatasetsAttributesAndNamesWithDots) {
  const TemporaryDirectory dir;
  {
    Hdf5Writer file(dir / "a.h5");
    file.set_attribute("/", "format", std::string("conformance"));
    file.set_attribute("/", "seed", int64_t{-3});
    file.create_group("/case");
    file.create_group("/case/parameters");
    file.set_attribute("/case", "eps", 1e-5);
    file.create("/case/parameters/blocks.0.ffn.up.weight", Shape{2, 3}, std::vector<double>{1, 2, 3, 4, 5, 6});
    file.create("/case/ids", Shape{2}, std::vector<int64_t>{7, -8});
    file.create("/case/loss", Shape{}, std::vector<double>{0.25});
    file.create("/case/f32", Shape{1}, std::vector<float>{1.5F});
    file.create("/case/names", Shape{2}, std::vector<std::string>{"\xc3\xa9", ""});
    file.create("/case/nothing", Shape{0, 4}, std::vector<double>{});
    file.close();
  }
  const Hdf5File file = read_hdf5(dir / "a.h5", Hdf5Access::complete);
  EXPECT_EQ(file.children("/"), std::vector<std::string>{"case"});
  EXPECT_EQ(file.children("/case"), (std::vector<std::string>{"f32", "ids", "loss", "names", "nothing", "parameters"}));
  EXPECT_EQ(file.children("/case/parameters"), std::vector<std::string>{"blocks.0.ffn.up.weight"});
  const std::string weight = "/case/parameters/blocks.0.ffn.up.weight";
  EXPECT_EQ(file.dataset(weight).shape, (Shape{2, 3}));
  EXPECT_EQ(file.values<double>(weight), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(file.values<int64_t>("/case/ids"), (std::vector<int64_t>{7, -8}));
  EXPECT_TRUE(file.dataset("/case/loss").shape.empty());
  EXPECT_EQ(file.values<double>("/case/loss"), std::vector<double>{0.25});
  EXPECT_EQ(file.values<float>("/case/f32"), std::vector<float>{1.5F});
  EXPECT_EQ(file.values<std::string>("/case/names"), (std::vector<std::string>{"\xc3\xa9", ""}));
  EXPECT_EQ(file.dataset("/case/nothing").shape, (Shape{0, 4}));
  EXPECT_EQ(file.attribute<std::string>("/", "format"), "conformance");
  EXPECT_EQ(file.attribute<int64_t>("/", "seed"), -3);
  EXPECT_EQ(file.attribute<double>("/", "seed"), -3.0);
  EXPECT_EQ(file.attribute<double>("/case", "eps"), 1e-5);
  EXPECT_FALSE(file.has_attribute("/case", "seed"));
}

TEST(Hdf5File, AWrongNameOrTypeIsAnErrorThatNamesFileAndObject) {
  const TemporaryDirectory dir;
  {
    Hdf5Writer file(dir / "a.h5");
    file.create("/x", Shape{1}, std::vector<double>{1});
    file.set_attribute("/x", "kind", std::string("relu"));
    file.close();
  }
  const Hdf5File file = read_hdf5(dir / "a.h5", Hdf5Access::complete);
  EXPECT_NE(message_of<Hdf5Error>([&] { (void)file.dataset("/y"); }).find("a.h5': '/y' is missing"), std::string::npos);
  EXPECT_NE(message_of<Hdf5Error>([&] { (void)file.values<float>("/x"); }).find("'/x' does not hold 32-bit"),
            std::string::npos);
  EXPECT_NE(message_of<Hdf5Error>([&] { (void)file.attribute<double>("/x", "kind"); }).find("'kind' of another type"),
            std::string::npos);
  EXPECT_NE(message_of<Hdf5Error>([&] { (void)file.attribute<double>("/x", "eps"); }).find("no attribute 'eps'"),
            std::string::npos);
}

TEST(Hdf5File, WritersNeverReplaceAFileAndReadersOfTheSameProcessAreRefused) {
  const TemporaryDirectory dir;
  Hdf5Writer file(dir / "a.h5");
  EXPECT_THROW(Hdf5Writer(dir / "a.h5"), Hdf5Error);
  EXPECT_NE(message_of<Hdf5Error>([&] { read_hdf5(dir / "a.h5", Hdf5Access::live); }).find("by this process"),
            std::string::npos);
  file.close();
  EXPECT_NO_THROW(read_hdf5(dir / "a.h5", Hdf5Access::live));
  EXPECT_THROW(file.create_group("/late"), Hdf5Error);
  EXPECT_THROW(Hdf5Writer("/nonexistent/a.h5"), Hdf5Error);
}

TEST(Hdf5File, AfterAFailureTheFileIsNotTouchedAgain) {
  const TemporaryDirectory dir;
  Hdf5Writer file(dir / "a.h5");
  file.create("/x", Shape{1}, std::vector<double>{1});
  file.flush_file();
  EXPECT_THROW(file.create("/x", Shape{1}, std::vector<double>{1}), Hdf5Error);  // exists
  EXPECT_TRUE(file.failed());
  const std::string before = read_text(dir / "a.h5");
  EXPECT_NE(message_of<Hdf5Error>([&] { file.create_group("/g"); }).find("not touched any more"), std::string::npos);
  EXPECT_THROW(file.close(), Hdf5Error);
  EXPECT_EQ(read_text(dir / "a.h5"), before);
}

TEST(Hdf5File, RowsGrowAndUnwrittenOnesReadAsNothing) {
  const TemporaryDirectory dir;
  Hdf5Writer file(dir / "a.h5");
  file.create_group("/g");
  const auto rows = file.create_rows({"/g/x", Hdf5Type::f32, {2, 3}, 4, true});
  for (int row = 0; row < 10; ++row) {
    const std::vector<float> data(6, static_cast<float>(row));
    file.append(rows, 1, data.data());
  }
  file.close();
  const Hdf5File read = read_hdf5(dir / "a.h5", Hdf5Access::complete);
  EXPECT_EQ(read.dataset("/g/x").shape, (Shape{10, 2, 3}));
  const auto& values = read.values<float>("/g/x");
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<float>(i / 6));
}

TEST(Hdf5File, Utf8IsKeptAndAnythingElseReplaced) {
  EXPECT_EQ(as_utf8("na\xc3\xafve"), "na\xc3\xafve");
  EXPECT_EQ(as_utf8("na\xefve"), "na\xef\xbf\xbdve");
  EXPECT_EQ(as_utf8(std::string("a\0b", 3)), "ab");
  EXPECT_EQ(as_utf8("\"\\\n"), "\"\\\n");
}

/// Files that only other programs write; made with h5py where it is installed.
TEST(Hdf5File, HostileAndForeignFilesOfH5pyAreHandled) {
  const TemporaryDirectory dir;
  write_text(dir / "make.py", R"(
import sys
try:
    import h5py, numpy as np
except ImportError:
    sys.exit(77)
d = sys.argv[1]
with h5py.File(d + "/huge.h5", "w") as f:
    f.create_dataset("x", shape=(1 << 40,), dtype="f8", chunks=(1024,))
with h5py.File(d + "/bomb.h5", "w") as f:
    f.create_dataset("x", shape=(1 << 40,), dtype="f8", chunks=(1024,), compression="gzip")
with h5py.File(d + "/cycle.h5", "w") as f:
    g = f.create_group("a")
    for i in range(10):
        g["self%d" % i] = g
with h5py.File(d + "/external.h5", "w") as f:
    f.create_dataset("x", shape=(4,), dtype="u1", external=[("/etc/passwd", 0, 4)])
with h5py.File(d + "/links.h5", "w") as f:
    f["soft"] = h5py.SoftLink("/nowhere")
    f["away"] = h5py.ExternalLink("/etc/hosts", "/")
    f["x"] = np.arange(3, dtype=">i4")
    f["half"] = np.ones(2, np.float16)
    f["fixed"] = np.array([b"ab", b"c"])
    f["complex"] = np.ones(2, np.complex128)
    f["scalar"] = "text"
    f.attrs["array"] = [1, 2]
    f.attrs["flag"] = np.bool_(True)
    f.attrs["name"] = "gelu"
    f.attrs["bytes"] = np.bytes_("relu")
    f.attrs["n"] = np.int32(5)
    f.create_dataset("empty", data=h5py.Empty("f8"))
)");
  const int status = std::system(("/usr/bin/python3 " + (dir / "make.py") + " " + dir.path() + " 2>&1").c_str());
  if (status != 0 && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)) {
    FAIL() << "python3 with h5py is not installed; ./dev setup does it";
  }
  ASSERT_EQ(status, 0);
  const auto message = [&](const char* name) {
    return message_of<Hdf5Error>([&] { read_hdf5(dir / name, Hdf5Access::complete); });
  };
  EXPECT_NE(message("huge.h5").find("'/x' claims more values"), std::string::npos);
  EXPECT_NE(message("bomb.h5").find("'/x' claims more values"), std::string::npos);
  EXPECT_NE(message("cycle.h5").find("group"), std::string::npos);
  EXPECT_NE(message("external.h5").find("other files"), std::string::npos);
  const Hdf5File file = read_hdf5(dir / "links.h5", Hdf5Access::live);
  EXPECT_EQ(file.children("/"), (std::vector<std::string>{"complex", "empty", "fixed", "half", "scalar", "x"}));
  EXPECT_EQ(file.values<int64_t>("/x"), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(file.values<float>("/half"), (std::vector<float>{1, 1}));
  EXPECT_EQ(file.values<std::string>("/fixed"), (std::vector<std::string>{"ab", "c"}));
  EXPECT_EQ(file.values<std::string>("/scalar"), std::vector<std::string>{"text"});
  EXPECT_TRUE(file.values<double>("/empty").empty());
  EXPECT_THROW((void)file.values<double>("/complex"), Hdf5Error);
  EXPECT_EQ(file.attribute<std::string>("/", "name"), "gelu");
  EXPECT_EQ(file.attribute<std::string>("/", "bytes"), "relu");
  EXPECT_EQ(file.attribute<int64_t>("/", "n"), 5);
  EXPECT_FALSE(file.has_attribute("/", "array"));
}

}  // namespace
}  // namespace ropewalk
