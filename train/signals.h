#pragma once

namespace ropewalk {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP is noted, for the run to end in good order; a second leaves at
/// once with exit status 128 + signal. SIGXFSZ and SIGPIPE are ignored: a full disk or a reader that has gone shows as
/// a failed write.
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
