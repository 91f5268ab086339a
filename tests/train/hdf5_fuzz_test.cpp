#include <random>

#include "storage_testing.h"
#include "train/hdf5_file.h"
#include "train/read_log.h"
#include "train/run_log.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

/// A small log, closed and compressed or as a kill leaves it.
std::string example_bytes(bool killed) {
  const TemporaryDirectory dir;
  const int status = in_fork([&] {
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    for (int64_t step = 1; step <= 30; ++step) append_step(log, step);
    log.flush();
    if (killed) _exit(0);
    log.finish(LogStatus::finished);
    return 0;
  });
  EXPECT_EQ(status, 0);
  return read_text(dir / "log.h5");
}

/// Reading a damaged log gives a log or an error that names it, and nothing else; returns whether it was an error.
bool read_gives_error(const std::string& path, const std::string& bytes) {
  write_text(path, bytes);
  try {
    read_log(path);
    return false;
  } catch (const LogError& error) {
    EXPECT_NE(std::string(error.what()).find("damaged.h5"), std::string::npos) << error.what();
    return true;
  }
}

TEST(Hdf5Fuzz, FlippedBytesNeverCrashTheReader) {
  const TemporaryDirectory dir;
  std::mt19937 random(11);
  for (const bool killed : {false, true}) {
    const std::string whole = example_bytes(killed);
    int errors = 0;
    for (int trial = 0; trial < 150; ++trial) {
      std::string bytes = whole;
      const int flips = 1 + static_cast<int>(random() % 4);
      for (int flip = 0; flip < flips; ++flip) {
        // Half of them among the structures at the start, where they hurt most.
        const std::size_t range = trial % 2 == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 4096);
        bytes[random() % range] ^= static_cast<char>(1 + random() % 255);
      }
      errors += read_gives_error(dir / "damaged.h5", bytes) ? 1 : 0;
    }
    EXPECT_GT(errors, 10);
  }
}

TEST(Hdf5Fuzz, TruncatedFilesNeverCrashTheReader) {
  const TemporaryDirectory dir;
  std::mt19937 random(12);
  const std::string closed = example_bytes(false);
  for (int trial = 0; trial < 40; ++trial) {
    EXPECT_TRUE(read_gives_error(dir / "damaged.h5", closed.substr(0, random() % closed.size())));
  }
  const std::string killed = example_bytes(true);
  for (int trial = 0; trial < 40; ++trial) {
    read_gives_error(dir / "damaged.h5", killed.substr(0, random() % killed.size()));
  }
}

TEST(Hdf5Fuzz, ForeignFilesOfTheOldFormatAreAsSafe) {
  // The old format has no checksums, so that damage reaches deep into the library.
  const TemporaryDirectory dir;
  const std::string script =
      "import h5py,numpy as np,sys\n"
      "with h5py.File(sys.argv[1],'w') as f:\n"
      " for i in range(20):\n"
      "  g=f.create_group('case%d'%i); g.attrs['op']='rope'; g.attrs['eps']=1e-5\n"
      "  g['inputs/x']=np.arange(30.).reshape(5,6); g['outputs/y']=np.arange(4)\n"
      "  g.create_dataset('z',data=np.zeros((40,3)),chunks=(8,3),compression='gzip')\n"
      "  g['names']=['a','bc']\n";
  write_text(dir / "make.py", script);
  if (std::system(("/usr/bin/python3 " + (dir / "make.py") + " " + (dir / "old.h5") + " 2>/dev/null").c_str()) != 0) {
    FAIL() << "python3 with h5py is not installed; ./dev setup does it";
  }
  const std::string whole = read_text(dir / "old.h5");
  ASSERT_EQ(read_hdf5(dir / "old.h5", Hdf5Access::complete).children("/").size(), 20U);
  std::mt19937 random(13);
  int errors = 0;
  for (int trial = 0; trial < 250; ++trial) {
    std::string bytes = whole;
    const int flips = 1 + static_cast<int>(random() % 12);
    for (int flip = 0; flip < flips; ++flip) bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    write_text(dir / "damaged.h5", bytes);
    try {
      read_hdf5(dir / "damaged.h5", Hdf5Access::complete);
    } catch (const Hdf5Error& error) {
      EXPECT_NE(std::string(error.what()).find("damaged.h5"), std::string::npos) << error.what();
      ++errors;
    }
  }
  EXPECT_GT(errors, 10);
}

}  // namespace
}  // namespace ropewalk
