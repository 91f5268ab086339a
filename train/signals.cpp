#include "train/signals.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace ropewalk {
namespace {

std::atomic<int> g_received{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

constexpr std::array kHandled = {SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, kHandled.size()> g_before;
constexpr std::array kIgnored = {SIGXFSZ, SIGPIPE};
std::array<struct sigaction, kIgnored.size()> g_ignored_before;

void note(int signal) {
  int none = 0;
  if (!g_received.compare_exchange_strong(none, signal)) _exit(128 + signal);
  constexpr char kNotice[] = "\nstopping after this step; once more to leave at once\n";
  const ssize_t written = write(STDERR_FILENO, kNotice, sizeof kNotice - 1);
  (void)written;
}

}  // namespace

SignalGuard::SignalGuard() {
  g_received = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kHandled.size(); ++i) {
    sigaction(kHandled[i], &action, &g_before[i]);
    // What nohup ignores stays ignored.
    if (kHandled[i] == SIGHUP && g_before[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &g_before[i], nullptr);
  }
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  for (std::size_t i = 0; i < kIgnored.size(); ++i) sigaction(kIgnored[i], &ignore, &g_ignored_before[i]);
}

SignalGuard::~SignalGuard() {
  for (std::size_t i = 0; i < kHandled.size(); ++i) sigaction(kHandled[i], &g_before[i], nullptr);
  for (std::size_t i = 0; i < kIgnored.size(); ++i) sigaction(kIgnored[i], &g_ignored_before[i], nullptr);
}

int SignalGuard::received() {
  return g_received;
}

}  // namespace ropewalk
