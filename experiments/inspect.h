#pragma once

#include <cstdint>
#include <string>

#include "experiments/log_text.h"
#include "experiments/terminal.h"

namespace ropewalk {

/// For the directory of a run or its log file, finished, killed or still running, the tables of its log; for the
/// directory of a sweep the comparison of its runs. Throws LogError if there is nothing that can be read.
std::string inspect(const std::string& path, const InspectOptions& options, const TextStyle& style);

enum class Curve : uint8_t { loss, grad_norm, length };

/// A curve of a run, or of each variant of a sweep (the mean over those of its seeds that came so far): training loss
/// or the global gradient norm over steps, or the held-out loss of the last evaluation over length. Throws LogError as
/// inspect(), and where no log of a sweep can be read.
std::string inspect_plot(const std::string& path, Curve curve, const StepRange& steps, const TextStyle& style);

/// The gradient norms of one kind of module over step and layer. Throws std::runtime_error for a kind that the log
/// lacks, naming those it has, and where no layers were logged in these steps.
std::string inspect_layers(const std::string& path, const std::string& kind, const StepRange& steps,
                           const TextStyle& style);

/// The same as CSV: of a run all training rows, as `ropewalk export --csv` writes them, of a sweep runs.csv.
std::string inspect_csv(const std::string& path, const StepRange& steps);
std::string inspect_plot_csv(const std::string& path, Curve curve, const StepRange& steps);
/// A row a step, layer and kind, with all that is logged of it; kind "" is all kinds.
std::string inspect_layers_csv(const std::string& path, const std::string& kind, const StepRange& steps);

}  // namespace ropewalk
