#include "train/isolated_process.h"

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <numeric>

#include "storage_testing.h"

namespace ropewalk {
namespace {

using testing_support::message_of;

TEST(IsolatedProcess, ValuesArriveAsTheyWereSent) {
  std::vector<double> large(300000);
  std::iota(large.begin(), large.end(), 0.5);
  in_child_process(
      {},
      [&](ByteWriter& out) {
        out.value(int64_t{-5});
        out.text("text");
        out.bytes(large.data(), large.size() * sizeof(double));
        out.text("");
      },
      [&](ByteReader& in) {
        EXPECT_EQ(in.value<int64_t>(), -5);
        EXPECT_EQ(in.text(), "text");
        EXPECT_EQ(in.vector<double>(large.size()), large);
        EXPECT_EQ(in.text(), "");
      });
}

TEST(IsolatedProcess, ACrashIsAnExceptionThatNamesTheSignal) {
  const auto die = [](int number) {
    return message_of<ChildError>([&] {
      in_child_process(
          {}, [&](ByteWriter&) { raise(number); }, [](ByteReader& in) { (void)in.value<int>(); });
    });
  };
  EXPECT_NE(die(SIGSEGV).find("signal 11"), std::string::npos);
  EXPECT_NE(die(SIGABRT).find("signal 6"), std::string::npos);
}

TEST(IsolatedProcess, ExceptionsEndTheChildAndThoseOfTheConsumerPass) {
  EXPECT_NE(message_of<ChildError>([] {
              in_child_process(
                  {}, [](ByteWriter&) { throw std::runtime_error("x"); },
                  [](ByteReader& in) { (void)in.value<int>(); });
            }).find("ended early"),
            std::string::npos);
  EXPECT_THROW(in_child_process(
                   {}, [](ByteWriter& out) { out.value(1); }, [](ByteReader&) { throw std::logic_error("mine"); }),
               std::logic_error);
}

TEST(IsolatedProcess, ClaimedSizesAreNotBelieved) {
  EXPECT_THROW(in_child_process(
                   {}, [](ByteWriter& out) { out.value(~uint64_t{0}); }, [](ByteReader& in) { (void)in.text(); }),
               ChildError);
}

TEST(IsolatedProcess, ASilentChildIsGivenUp) {
  ChildLimits limits;
  limits.silence_seconds = 1;
  EXPECT_NE(message_of<ChildError>([&] {
              in_child_process(
                  limits, [](ByteWriter&) { pause(); }, [](ByteReader& in) { (void)in.value<int>(); });
            }).find("nothing came"),
            std::string::npos);
}

}  // namespace
}  // namespace ropewalk
