#include "framework/op_clock.h"

#include <cstring>

#include "framework/error.h"

namespace ropewalk {

void OpClock::lap(const char* op, Pass pass) {
  const Time::time_point now = Time::now();
  std::size_t i = 0;
  while (i < used_ && rows_[i].op != op && std::strcmp(rows_[i].op, op) != 0) ++i;
  if (i == used_) {
    require(used_ < rows_.size(), "op clock: more than {} ops; '{}' has no room", rows_.size(), op);
    rows_[used_++] = {.op = op};
  }
  Row& row = rows_[i];
  row.seconds[static_cast<std::size_t>(pass)] += std::chrono::duration<double>(now - last_).count();
  if (pass != Pass::backward) ++row.laps;
  last_ = now;
}

}  // namespace ropewalk
