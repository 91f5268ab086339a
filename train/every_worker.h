#pragma once

#include <cstdint>
#include <latch>

#include "framework/threads.h"

namespace ropewalk {

/// Calls task(worker) once on each worker, on all of them at the same time. Workers::run by itself promises neither: to
/// a thread that gets a core late, the others leave nothing to do.
template <class F>
void on_every_worker(Workers& workers, const F& task) {
  std::latch all_here(workers.count());
  const auto wait_and_do = [&](int64_t worker, int64_t) {
    all_here.arrive_and_wait();
    task(worker);
  };
  workers.run(workers.count(), wait_and_do);
}

}  // namespace ropewalk
