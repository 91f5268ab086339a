#include "layers/positions/scheme.h"

namespace ropewalk {

PositionSchemeRow none_scheme() {
  return {.info = {.name = "none",
                   .summary = "no positions at all; a causal mask still tells order (Kazemnejad et al. 2023)"},
          .make = [](const PositionConfig&, const PositionSizes&) { return std::make_unique<PositionScheme>(); }};
}

}  // namespace ropewalk
