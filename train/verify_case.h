#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/tape.h"
#include "train/hdf5_file.h"

namespace ropewalk {

/// Thrown for a case that asks for something this version does not have.
struct UnsupportedCase {};

/// An array that a run of a case gave, beside which the file holds the truth.
struct CaseResult {
  std::vector<uint64_t> shape;
  std::vector<double> values;
  bool integer = false;
};

/// The groups (and the one dataset) of a case that hold truths.
inline constexpr std::string_view kOutputs = "outputs";
inline constexpr std::string_view kInputGrads = "input_grads";
inline constexpr std::string_view kParameterGrads = "parameter_grads";
inline constexpr std::string_view kFinalParameters = "final_parameters";
inline constexpr std::string_view kResidualGradNorm = "residual_grad_norm";

/// One case of a conformance file in one precision: hands out what the file holds, checked, and collects the results.
/// Everything that is missing or misshapen is an Hdf5Error that names the object.
class ConformanceCase {
 public:
  ConformanceCase(const Hdf5File& file, std::string name, DType dtype);

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }

  int64_t integer(const std::string& attribute, int64_t least, int64_t greatest) const;
  bool flag(const std::string& attribute) const { return integer(attribute, 0, 1) != 0; }
  double real(const std::string& attribute) const;
  std::string text(const std::string& attribute) const;
  /// The value that an attribute names, or UnsupportedCase.
  template <class E>
  E choice(const std::string& attribute, std::initializer_list<std::pair<std::string_view, E>> values) const {
    const std::string name = text(attribute);
    for (const auto& [known, value] : values) {
      if (name == known) return value;
    }
    throw UnsupportedCase{};
  }

  /// Names of the datasets in a group of the case.
  std::vector<std::string> names(std::string_view group) const;
  /// Shape of "inputs/x", every extent at least 1, of the rank given (-1: any).
  Shape shape(const std::string& dataset, int rank = -1) const;
  /// A floating-point dataset in the precision of the run; throws unless it has the shape wanted, where one is given.
  Tensor tensor(const std::string& dataset) const;
  Tensor tensor(const std::string& dataset, const Shape& wanted) const;
  /// An integer dataset whose values are all in [least, greatest].
  std::vector<int64_t> integers(const std::string& dataset, int64_t least, int64_t greatest) const;
  std::vector<int32_t> tokens(const std::string& dataset, int64_t least, int64_t greatest) const;

  /// Refuses, before memory is taken, a case that is larger than any real one.
  void limit_work(std::initializer_list<int64_t> factors) const;
  [[noreturn]] void fail(const std::string& dataset, const std::string& reason) const;

  void give(std::string_view group, const std::string& name, const Tensor& value);
  void give(std::string_view group, const std::string& name, CaseResult result);
  const std::map<std::string, CaseResult>& results() const { return results_; }

 private:
  std::string object(const std::string& dataset) const { return "/" + name_ + "/" + dataset; }

  const Hdf5File& file_;
  std::string name_;
  DType dtype_;
  std::map<std::string, CaseResult> results_;
};

/// A case of one operation on a tape: inputs are leaves, and run() carries the file's cotangent back to them.
class OperationRun {
 public:
  explicit OperationRun(ConformanceCase& conformance_case) : case_(conformance_case), tape_(workspace_, Mode::train) {}

  Tape& tape() { return tape_; }
  /// The leaf of inputs/NAME.
  Var input(const std::string& name, const Shape& wanted);
  Var input(const std::string& name) { return input(name, case_.shape("inputs/" + name)); }
  /// Gives outputs/NAME and the gradients of all inputs.
  void finish(const std::string& name, Var y);

 private:
  ConformanceCase& case_;
  Workspace workspace_;
  Tape tape_;
  std::vector<std::pair<std::string, Var>> inputs_;
};

/// How the cases of one operation are run.
struct CaseKind {
  std::string_view op;
  void (*run)(ConformanceCase&);
};

/// The operations that this version has, in the order of the report.
std::span<const CaseKind> operation_cases();
std::span<const CaseKind> position_cases();
std::span<const CaseKind> model_cases();

}  // namespace ropewalk
