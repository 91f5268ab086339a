#include "train/option_store.h"

#include <boost/program_options.hpp>

namespace ropewalk {
namespace {

namespace po = boost::program_options;

/// One row of the options table as Boost.Program_options sees it: parses by parse_value(), stores an OptionValue, and
/// writes it to the bound field of a Config.
class FieldValue : public po::value_semantic {
 public:
  FieldValue(const Option& option, Config& config) : option_(option), config_(config) {}

  std::string name() const override { return option_.name(); }
  unsigned min_tokens() const override { return 1; }
  unsigned max_tokens() const override { return 1; }
  bool is_composing() const override { return false; }
  bool is_required() const override { return false; }

  void parse(boost::any& value, const std::vector<std::string>& tokens, bool /*utf8*/) const override {
    value = parse_value(option_, tokens.at(0));
  }

  bool apply_default(boost::any& value) const override {
    value = option_.get(config_);
    return true;
  }

  void notify(const boost::any& value) const override { option_.set(config_, boost::any_cast<OptionValue>(value)); }

 private:
  const Option& option_;
  Config& config_;
};

}  // namespace

Config store_values(const OptionTable& table, const std::vector<std::pair<std::string, std::string>>& values) {
  Config config = table.defaults();
  po::options_description description;
  for (const Option& option : table.options()) {
    description.add_options()(option.key.c_str(), new FieldValue(option, config), option.help.c_str());
  }
  po::parsed_options parsed(&description);
  for (const auto& [key, text] : values) {
    if (table.find(key) == nullptr) throw std::invalid_argument("unknown key '" + key + "'");
    parsed.options.emplace_back(key, std::vector<std::string>{text});
  }
  po::variables_map stored;
  po::store(parsed, stored);
  po::notify(stored);
  return config;
}

}  // namespace ropewalk
