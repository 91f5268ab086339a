#include "framework/tape.h"

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/linear.h"
#include "tests/framework/gradient_check.h"

namespace ropewalk::testing {
namespace {

TEST(TapeTest, RefusesAnOpWithoutBackwardWhereAGradientIsWanted) {
  Workspace workspace;
  {
    Tape tape(workspace, Mode::train);
    const Var leaf = tape.leaf(random_tensor({3}, DType::f64, 1));
    const Var constant = tape.constant(random_tensor({3}, DType::f64, 1));
    EXPECT_THROW(tape.record_without_backward("rounding", tape.allocate({3}, DType::f64), {constant, leaf}), Error);
    EXPECT_EQ(tape.nodes(), 2U);
    EXPECT_NO_THROW(tape.record_without_backward("rounding", tape.allocate({3}, DType::f64), {constant}));
  }
  Tape tape(workspace, Mode::inference);
  const Var leaf = tape.leaf(random_tensor({3}, DType::f64, 1));
  EXPECT_NO_THROW(tape.record_without_backward("rounding", tape.allocate({3}, DType::f64), {leaf}));
}

TEST(TapeTest, TellsTheFirstWriteFromTheLater) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.leaf(random_tensor({3}, DType::f64, 1));
  std::vector<int> seen;
  std::vector<int>* log = &seen;
  const auto observe = [&] {
    return tape.record("observe", copy(x.value()), {x}, [x, log](Tape& t, Var) {
      const GradientSink<double> dx = t.gradient_sink<double>(x);
      log->push_back(dx.accumulate);
      for (int i = 0; i < 3; ++i) dx.data[i] = i;
    });
  };
  const Var a = observe();
  const Var b = observe();
  const Var unreached = observe();
  tape.seed(a, random_tensor({3}, DType::f64, 2));
  tape.seed(b, random_tensor({3}, DType::f64, 2));
  tape.backward();
  EXPECT_EQ(seen, (std::vector<int>{0, 1}));
  EXPECT_FALSE(tape.has_gradient(unreached));
  EXPECT_TRUE(tape.has_gradient(x));
}

TEST(TapeTest, NamesTheModuleOfTheFirstNonfiniteValueAndGradient) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  tape.enter_module("first");
  const Var x = tape.leaf(random_tensor({3}, DType::f64, 1));
  const Var y = scale(x, 2.0);
  tape.enter_module("second");
  const Var z = scale(y, 3.0);
  tape.enter_module("third");
  const Var out = scale(z, 1.0);
  bool in_gradient = false;
  EXPECT_EQ(tape.first_nonfinite(in_gradient), nullptr);

  Tensor cotangent = random_tensor({3}, DType::f64, 2);
  tape.seed(out, cotangent);
  cotangent.set(1, INFINITY);
  tape.seed(z, cotangent);
  EXPECT_STREQ(tape.first_nonfinite(in_gradient), "second");
  EXPECT_TRUE(in_gradient);

  z.value().set(0, NAN);
  out.value().set(0, NAN);
  EXPECT_STREQ(tape.first_nonfinite(in_gradient), "second");
  EXPECT_FALSE(in_gradient);
}

TEST(TapeTest, AParameterIsOneVarHoweverOftenItIsAskedFor) {
  ParameterSet set;
  const int32_t a = set.add("a", {4}, Role::weight);
  set.allocate(DType::f64);
  GradientBuffer gradients(set);
  Workspace workspace;
  Tape tape(workspace, Mode::train, &set, &gradients);
  EXPECT_EQ(tape.parameter(a).id, tape.parameter(a).id);
  const Var y = add(scale(tape.parameter(a), 2.0), scale(tape.parameter(a), 3.0));
  Tensor ones = Tensor::zeros({4}, DType::f64);
  for (int64_t i = 0; i < 4; ++i) ones.set(i, 1);
  tape.seed(y, ones);
  tape.backward();
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(set.view(gradients.flat(), a).at(i), 5.0);
}

TEST(TapeTest, BackwardStartsFromAScalarThatWantsAGradient) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  EXPECT_THROW(tape.backward(tape.leaf(random_tensor({3}, DType::f64, 1))), Error);
  EXPECT_THROW(tape.backward(tape.constant(random_tensor({}, DType::f64, 1))), Error);
  EXPECT_THROW(tape.seed(tape.leaf(random_tensor({3}, DType::f64, 1)), random_tensor({4}, DType::f64, 1)), Error);
}

TEST(TapeTest, AWorkspaceServesOneTapeAtATime) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  tape.leaf(random_tensor({3}, DType::f64, 1));
  EXPECT_THROW(Tape(workspace, Mode::train), Error);
}

TEST(TapeTest, ASteadyStepTakesNoMoreMemory) {
  Workspace workspace;
  const Tensor x = random_tensor({1000, 100}, DType::f64, 1);
  const Tensor cotangent = random_tensor({1000, 100}, DType::f64, 2);
  std::vector<std::size_t> held;
  for (int step = 0; step < 5; ++step) {
    {
      Tape tape(workspace, Mode::train);
      Var y = tape.leaf(x);
      for (int i = 0; i < 10; ++i) y = scale(y, 1.1);
      tape.seed(y, cotangent);
      tape.backward();
    }
    EXPECT_EQ(workspace.arena.live_bytes(), 0U);
    held.push_back(workspace.arena.held_bytes());
  }
  for (std::size_t step = 2; step < 5; ++step) EXPECT_EQ(held[step], held[1]);
}

TEST(TapeTest, InferenceKeepsOneValueAndForgetsTheRest) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  Var x = tape.constant(random_tensor({100}, DType::f64, 1));
  const double before = x.value().at(50);
  const Arena::Mark mark = tape.arena().mark();
  std::size_t live = 0;
  for (int i = 0; i < 4; ++i) {
    x = tape.keep_only(mark, scale(scale(x, 2.0), 0.5));
    if (i > 0) {
      EXPECT_EQ(tape.arena().live_bytes(), live);
    }
    live = tape.arena().live_bytes();
  }
  EXPECT_EQ(x.value().at(50), before);
}

TEST(TapeTest, KeepsTheGradientsThatAreRetainedAndRefusesTheOthers) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.leaf(random_tensor({3, 4}, DType::f64, 1));
  const Var kept = scale(x, 2.0);
  const Var lost = scale(kept, 3.0);
  const Var y = scale(lost, 5.0);
  tape.retain_gradient(kept);
  const Tensor cotangent = random_tensor({3, 4}, DType::f64, 2);
  tape.seed(y, cotangent);
  tape.backward();
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(tape.gradient_of(kept).at(i), 15 * cotangent.at(i), 1e-12);
    EXPECT_NEAR(tape.gradient_of(x).at(i), 30 * cotangent.at(i), 1e-12);
  }
  EXPECT_THROW(tape.gradient_of(lost), Error);
}

TEST(TapeTest, RunsBackwardOnce) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var y = scale(scale(tape.leaf(random_tensor({1}, DType::f64, 1)), 2.0), 3.0);
  tape.backward(y);
  EXPECT_THROW(tape.backward(y), Error);
}

TEST(TapeTest, ARetainedGradientIsNotHandedOver) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.leaf(random_tensor({3, 4}, DType::f64, 1));
  const Var w = tape.leaf(random_tensor({4, 4}, DType::f64, 2));
  const Var y = linear_add(x, w, {}, x);
  tape.retain_gradient(y);
  const Tensor cotangent = random_tensor({3, 4}, DType::f64, 3);
  tape.seed(y, cotangent);
  tape.backward();
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(tape.gradient_of(y).at(i), cotangent.at(i));
}

TEST(TapeTest, GradientsOfAChainTakeTheMemoryOfTwo) {
  const auto bytes = [](int length) {
    Workspace workspace;
    Tape tape(workspace, Mode::train);
    Var v = tape.leaf(random_tensor({1000}, DType::f64, 1));
    for (int i = 0; i < length; ++i) v = scale(v, 0.5);
    const std::size_t before = tape.arena().live_bytes();
    tape.seed(v, random_tensor({1000}, DType::f64, 2));
    tape.backward();
    return tape.arena().live_bytes() - before;
  };
  EXPECT_EQ(bytes(20), bytes(3));
}

TEST(TapeTest, GivesItsTimeToTheOpsItRuns) {
  Workspace workspace;
  OpClock clock;
  const auto start = std::chrono::steady_clock::now();
  {
    Tape tape(workspace, Mode::train);
    tape.time_ops(&clock);
    clock.start();
    const Var x = tape.leaf(random_tensor({1000}, DType::f64, 1));
    const Var y = add(scale(scale(x, 2.0), 0.5), x);
    tape.seed(y, random_tensor({1000}, DType::f64, 2));
    tape.backward();
  }
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_EQ(clock.rows().size(), 2U);
  EXPECT_STREQ(clock.rows()[0].op, "scale");
  EXPECT_STREQ(clock.rows()[1].op, "add");
  EXPECT_EQ(clock.rows()[0].laps, 2);
  EXPECT_EQ(clock.rows()[1].laps, 1);
  double total = 0;
  for (const OpClock::Row& row : clock.rows()) {
    EXPECT_GT(row.of(OpClock::Pass::forward), 0) << row.op;
    EXPECT_GT(row.of(OpClock::Pass::backward), 0) << row.op;
    EXPECT_EQ(row.of(OpClock::Pass::step), 0) << row.op;
    total += row.total();
  }
  EXPECT_LE(total, passed);
}

TEST(TapeTest, AClockTimesNothingOfTheTapesThatDoNotCarryIt) {
  Workspace workspace;
  OpClock clock;
  for (OpClock* carried : {&clock, static_cast<OpClock*>(nullptr)}) {
    Tape tape(workspace, Mode::inference);
    tape.time_ops(carried);
    scale(tape.leaf(random_tensor({3}, DType::f64, 1)), 2.0);
  }
  ASSERT_EQ(clock.rows().size(), 1U);
  EXPECT_EQ(clock.rows()[0].laps, 1);
}

}  // namespace
}  // namespace ropewalk::testing
