#include "train/bench/variants.h"

#include <functional>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "layers/positions/scheme.h"
#include "train/bench/bench_json.h"
#include "train/config_error.h"

namespace ropewalk {
namespace {

constexpr int64_t kLeastRounds = 5;

VariantTable table_of(const BenchSubject& subject, const std::string& group, const std::vector<std::string>& names,
                      std::span<const std::function<double()>> runs, double seconds) {
  VariantTable table{
      .subject = subject.name, .config = subject.config, .overridden = subject.overridden, .group = group};
  const std::vector<std::vector<double>> times = time_in_rounds(runs, seconds, kLeastRounds);
  table.rounds = static_cast<int64_t>(times.front().size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    table.rows.push_back({.name = names[i],
                          .ms = paired_ratio(times[i], std::vector<double>(times[i].size(), 1.0), 1e3),
                          .ratio = paired_ratio(times[i], times[0])});
  }
  return table;
}

/// The values of one key, the first of them the one that others are compared with.
VariantTable over_values(const SubjectWith& subject, const std::string& key, const std::vector<std::string>& values,
                         double seconds) {
  std::vector<BenchSubject> subjects;
  for (const std::string& value : values) subjects.push_back(subject({fmt::format("{}={}", key, value)}));
  require_memory_for(subjects);
  std::vector<std::unique_ptr<BenchModel>> models;
  std::vector<std::function<double()>> runs;
  for (const BenchSubject& one : subjects) {
    models.push_back(std::make_unique<BenchModel>(one, BenchPass::train));
    runs.emplace_back([model = models.back().get()] { return model->run(); });
  }
  return table_of(subjects.front(), key, values, runs, seconds);
}

VariantTable over_logging(const SubjectWith& subject, double seconds) {
  const BenchSubject one = subject({});
  BenchModel model(one, BenchPass::train);
  const StepRequest layers{.norms = true, .residuals = true};
  const StepRequest attention{.attention = true};
  const StepRequest both{.norms = true, .residuals = true, .attention = true};
  std::vector<std::function<double()>> runs;
  for (const StepRequest& request : {StepRequest{}, layers, attention, both}) {
    runs.emplace_back([&model, request] { return model.run(request); });
  }
  return table_of(one, "logged at each step", {"nothing", "layers", "attention", "layers and attention"}, runs,
                  seconds);
}

}  // namespace

std::vector<std::string> legal_encodings(const SubjectWith& subject) {
  subject({});  // what is wrong without another encoding is wrong
  std::vector<std::string> encodings;
  for (const PositionSchemeRow& row : position_schemes()) {
    try {
      subject({"position.encoding=" + row.info.name});
      encodings.push_back(row.info.name);
    } catch (const ConfigError&) {  // not with this kind of attention
    }
  }
  return encodings;
}

std::vector<VariantTable> bench_variants(const SubjectWith& subject, double seconds, const BenchSay& say) {
  std::vector<std::string> encodings = {"none"};
  for (const std::string& name : legal_encodings(subject)) {
    if (name != encodings.front()) encodings.push_back(name);
  }
  const auto begin = [&](const char* group) {
    if (say) say(group);
  };
  std::vector<VariantTable> tables;
  begin("position.encoding");
  tables.push_back(over_values(subject, "position.encoding", encodings, seconds));
  begin("model.norm");
  tables.push_back(over_values(subject, "model.norm", {"layernorm", "rmsnorm"}, seconds));
  begin("logged at each step");
  tables.push_back(over_logging(subject, seconds));
  return tables;
}

std::string to_text(const std::vector<VariantTable>& tables) {
  std::string out;
  for (const VariantTable& t : tables) {
    out += fmt::format("{}: {}, {} rounds\n  {:<22} {:>10} {:>7}  {}\n", t.subject, t.group, t.rounds, "", "ms",
                       "ratio", "quartiles");
    for (const VariantTable::Row& row : t.rows) {
      out += fmt::format("  {:<22} {:>10.3f} {:>7.3f}  {}{}\n", row.name, row.ms.median, row.ratio.median,
                         quartiles_text(row.ratio, 3), row.ratio.noisy() ? "  noisy" : "");
    }
    out += "\n";
  }
  out += "ratio: time over that of the first row, within a round; the median over the rounds, and their quartiles\n";
  return out + kNoisyRatio;
}

std::string to_json(const std::vector<VariantTable>& tables) {
  nlohmann::json out = nlohmann::json::array();
  for (const VariantTable& t : tables) {
    nlohmann::json rows = nlohmann::json::array();
    for (const VariantTable::Row& row : t.rows) {
      nlohmann::json json = {{"name", row.name}};
      put_spread(json, "ms", row.ms);
      put_spread(json, "ratio", row.ratio);
      rows.push_back(std::move(json));
    }
    nlohmann::json table = {{"name", t.subject}, {"group", t.group}, {"rounds", t.rounds}, {"rows", rows}};
    put_settings(table, t.config, t.overridden);
    out.push_back(std::move(table));
  }
  return nlohmann::json{{"tables", out}}.dump();
}

}  // namespace ropewalk
