#include "framework/threads.h"

#include <pthread.h>
#include <signal.h>

namespace ropewalk {

Workers::Workers(int64_t count) : count_(count) {
  // Signals are the main thread's business.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int64_t worker = 1; worker < count_; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::work(int64_t worker) {
  while (true) {
    int64_t i = 0;
    {
      const std::lock_guard lock(mutex_);
      if (next_ >= tasks_) return;
      i = next_++;
    }
    try {
      (*task_)(worker, i);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failed_task_ < 0 || i < failed_task_) {
        failed_task_ = i;
        failure_ = std::current_exception();
      }
    }
  }
}

void Workers::serve(int64_t worker) {
  uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
    }
    work(worker);
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) done_.notify_one();
  }
}

void Workers::run(int64_t n, TaskRef task) {
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    next_ = 0;
    tasks_ = n;
    running_ = count_ - 1;
    failed_task_ = -1;
    failure_ = nullptr;
    ++round_;
  }
  start_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return running_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace ropewalk
