#include <cstdlib>

#include "storage_testing.h"
#include "train/read_log.h"
#include "train/run_log.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

constexpr int kNoPackages = 77;

/// Exit code of the script on a log; what it prints goes to standard output.
int run_script(const std::string& log, const std::string& mode) {
  const std::string python = access("/usr/bin/python3", X_OK) == 0 ? "/usr/bin/python3" : "python3";
  const int status = std::system((python + " -W ignore " ROPEWALK_SOURCE_DIR "/tests/train/read_log_with_python.py '" +
                                  log + "' " + mode + " 2>&1")
                                     .c_str());
  if (!WIFEXITED(status)) return -1;
  return WEXITSTATUS(status) == 127 ? kNoPackages : WEXITSTATUS(status);
}

TEST(RunLogPython, XarrayReadsALogByNameWhileItIsWrittenAndAfter) {
  const TemporaryDirectory dir;
  const RunLock lock(dir.path());
  RunLog log = RunLog::create(lock, example_schema(), example_header());
  for (int64_t step = 1; step <= 60; ++step) append_step(log, step);
  log.flush();
  const int live = run_script(dir / "log.h5", "live");
  if (live == kNoPackages)
    FAIL() << "python3 with h5py, xarray, netCDF4 and h5netcdf is not installed; ./dev setup does it";
  EXPECT_EQ(live, 0);
  log.finish(LogStatus::finished);
  EXPECT_EQ(run_script(dir / "log.h5", "1"), 0);
}

TEST(RunLogPython, XarrayReadsARecoveredLog) {
  const TemporaryDirectory dir;
  const int status = in_fork([&] {
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    for (int64_t step = 1; step <= 60; ++step) append_step(log, step);
    log.flush();
    _exit(0);  // as a kill would end it
    return 1;
  });
  ASSERT_EQ(status, 0);
  recover_log(dir / "log.h5");
  const int code = run_script(dir / "log.h5", "2");
  if (code == kNoPackages)
    FAIL() << "python3 with h5py, xarray, netCDF4 and h5netcdf is not installed; ./dev setup does it";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace ropewalk
