#pragma once

#include <string>
#include <vector>

#include "train/hdf5_file.h"

namespace ropewalk {

/// The greatest error that a case may have in each precision. The error of a dataset is its largest absolute difference
/// from the truth over the largest true absolute value of its group: some true gradients are zero, and rounding beside
/// them is no fault.
struct VerifyBounds {
  double f64 = 1e-10;
  double f32 = 2e-5;
};

/// The cases of one operation (or of whole models, or of training).
struct VerifyLine {
  std::string op;
  int cases = 0;
  int failed = 0;
  int unsupported = 0;
  double worst_f64 = 0.0;  ///< over all cases that ran; infinity where one gave NaN or was refused
  double worst_f32 = 0.0;
};

struct VerifyReport {
  std::vector<VerifyLine> lines;
  int passed = 0;
  int failed = 0;
  int unsupported = 0;
  std::vector<std::string> failures;  ///< one line a failed case: its name, the worst dataset, its error and the bound
};

/// Runs every case of a conformance file through the production kernels, forward and backward, once in f64 and once in
/// f32, and compares all that the file holds as truth: outputs, gradients of inputs, parameters and of the residual
/// stream, and trained parameters. A case passes when both precisions are inside the bounds; NaN and infinity never
/// are. A case of an operation that this version does not have is unsupported.
///
/// @throws Hdf5Error naming file and object for a file that cannot be read, is no conformance file, or lacks or
/// misshapes a dataset or attribute.
VerifyReport verify_conformance(const std::string& path);

/// The same for a file in memory and any bounds.
VerifyReport verify_conformance(const Hdf5File& file, const VerifyBounds& bounds = {});

/// A line an operation (cases, worst error in f64 and f32, ok / FAIL / unsupported), then `N passed, M failed, K
/// unsupported`. VerifyReport::failures is not part of it.
std::string to_text(const VerifyReport& report);

}  // namespace ropewalk
