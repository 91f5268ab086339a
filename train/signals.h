#pragma once

namespace ropewalk {

/// While it lives, the first SIGINT or SIGTERM is noted, for the run to end in good order; a second leaves at once with
/// exit status 128 + signal. SIGXFSZ is ignored: a full disk shows as a failed write.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  /// The signal that came, or 0.
  static int received();
};

}  // namespace ropewalk
