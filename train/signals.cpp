#include "train/signals.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace ropewalk {
namespace {

std::atomic<int> g_received{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

constexpr std::array kHandled = {SIGINT, SIGTERM};
std::array<struct sigaction, kHandled.size()> g_before;
struct sigaction g_xfsz_before;

void note(int signal) {
  int none = 0;
  if (!g_received.compare_exchange_strong(none, signal)) _exit(128 + signal);
}

}  // namespace

SignalGuard::SignalGuard() {
  g_received = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kHandled.size(); ++i) sigaction(kHandled[i], &action, &g_before[i]);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, &g_xfsz_before);
}

SignalGuard::~SignalGuard() {
  for (std::size_t i = 0; i < kHandled.size(); ++i) sigaction(kHandled[i], &g_before[i], nullptr);
  sigaction(SIGXFSZ, &g_xfsz_before, nullptr);
}

int SignalGuard::received() {
  return g_received;
}

}  // namespace ropewalk
