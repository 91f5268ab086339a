#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace ropewalk {

/// A task for Workers::run: refers to a callable that outlives the call, so that passing one allocates nothing.
class TaskRef {
 public:
  template <class F>
  requires std::is_invocable_v<const F&, int64_t, int64_t> TaskRef(
      const F& f)  // NOLINT(google-explicit-constructor): a reference in disguise
      : object_(&f),
        call_([](const void* object, int64_t worker, int64_t i) { (*static_cast<const F*>(object))(worker, i); }) {}
  void operator()(int64_t worker, int64_t i) const { call_(object_, worker, i); }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t, int64_t);
};

/// A fixed number of threads that share out numbered tasks; the calling thread is worker 0. The one owner of thread
/// counts.
class Workers {
 public:
  explicit Workers(int64_t count);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int64_t count() const { return count_; }
  /// Calls task(worker, i) once for every i in [0, n), lower numbers first, and returns when all are done. Rethrows the
  /// exception of the lowest task that threw.
  void run(int64_t n, TaskRef task);

 private:
  void serve(int64_t worker);
  void work(int64_t worker);

  int64_t count_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  const TaskRef* task_ = nullptr;
  int64_t next_ = 0;
  int64_t tasks_ = 0;
  int64_t running_ = 0;
  uint64_t round_ = 0;
  bool stop_ = false;
  int64_t failed_task_ = -1;
  std::exception_ptr failure_;
};

}  // namespace ropewalk
