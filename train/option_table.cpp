#include "train/options.h"

namespace ropewalk {

const OptionTable& option_table() {
  static const OptionTable table(position_scheme_infos());
  return table;
}

}  // namespace ropewalk
