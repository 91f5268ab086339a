#include "train/config_validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <variant>

#include "data/error.h"
#include "data/tasks/task.h"
#include "framework/tensor.h"
#include "train/text.h"

namespace ropewalk {
namespace {

using Keys = std::vector<std::string>;

class Checker {
 public:
  Checker(const AppliedEntries& given, ResolvedConfig& resolved, std::vector<std::string>& errors)
      : c(resolved.config), given_(given), resolved_(resolved), errors_(errors) {}

  /// Unless `holds`, an error about these keys.
  void require(bool holds, const Keys& keys, const std::string& message) {
    if (!holds && !any_refused(keys)) errors_.push_back(error_at(place(keys), with_origins(message, keys)));
  }

  /// If `doubtful`, a warning about these keys.
  void warn(bool doubtful, const Keys& keys, const std::string& message) {
    if (!doubtful || any_refused(keys)) return;
    resolved_.warnings.push_back(fmt::format("{}: warning: {}", place(keys).text(), with_origins(message, keys)));
  }

  bool is_given(const std::string& key) const { return resolved_.origins.count(key) > 0; }
  const Config& as_given() const { return given_.config; }

  /// The options of a position scheme, where the table has them.
  double number(const std::string& key) const {
    const auto found = c.position.options.find(key);
    if (found == c.position.options.end()) return 0;
    if (const auto* whole = std::get_if<int64_t>(&found->second)) return static_cast<double>(*whole);
    const auto* real = std::get_if<double>(&found->second);
    return real == nullptr ? 0 : *real;
  }
  std::string text(const std::string& key) const {
    const auto found = c.position.options.find(key);
    const auto* value = found == c.position.options.end() ? nullptr : std::get_if<std::string>(&found->second);
    return value == nullptr ? "" : *value;
  }

  const Config& c;

 private:
  bool any_refused(const Keys& keys) const {
    return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
      return std::find(given_.refused.begin(), given_.refused.end(), key) != given_.refused.end();
    });
  }

  /// The place to look at: the first of the keys that was given, else the file.
  Origin place(const Keys& keys) const {
    for (const std::string& key : keys) {
      if (is_given(key)) return resolved_.origin(key);
    }
    return given_.subject;
  }

  std::string with_origins(const std::string& message, const Keys& keys) const {
    std::vector<std::string> origins;
    for (const std::string& key : keys) origins.push_back(resolved_.origin(key).text());
    return fmt::format("{} ({})", message, joined(origins));
  }

  const AppliedEntries& given_;
  ResolvedConfig& resolved_;
  std::vector<std::string>& errors_;
};

void check_model(Checker& k) {
  const ModelConfig& m = k.c.model;
  if (k.as_given().model.d_head == 0) {
    k.require(m.d_model % m.n_heads == 0, {"model.d_model", "model.n_heads"},
              fmt::format("model.d_model = {} is not divisible by model.n_heads = {}; change one of them or give "
                          "model.d_head",
                          m.d_model, m.n_heads));
  }
  k.require(m.n_heads % m.n_kv_heads == 0, {"model.n_heads", "model.n_kv_heads"},
            fmt::format("model.n_heads = {} is not divisible by model.n_kv_heads = {}", m.n_heads, m.n_kv_heads));
  k.require(k.c.attention.kind != AttentionKind::mla, {"attention.kind"},
            "attention.kind = mla is not available in this version; use mha");
}

void check_attention(Checker& k) {
  const AttentionConfig& a = k.c.attention;
  k.warn(a.global_tokens > 0 && a.window_radius < 0, {"attention.global_tokens", "attention.window_radius"},
         fmt::format("attention.global_tokens = {} changes nothing without a window; attention.window_radius = {}",
                     a.global_tokens, a.window_radius));
}

void check_rope_scaling(Checker& k) {
  const std::string scaling = k.text("rope_scaling");
  const double factor = k.number("rope_factor");
  const int64_t dims = static_cast<int64_t>(k.number("rope_dims"));
  const bool beyond_one = scaling == "yarn" || scaling == "llama3" || scaling == "dynamic_ntk";
  k.require(!beyond_one || factor >= 1, {"position.rope_scaling", "position.rope_factor"},
            fmt::format("position.rope_scaling = {} needs a factor of at least 1; position.rope_factor = {}", scaling,
                        factor));
  k.require(
      scaling == "none" || factor > 0, {"position.rope_scaling", "position.rope_factor"},
      fmt::format("position.rope_scaling = {} needs a positive factor; position.rope_factor = {}", scaling, factor));
  const bool by_base = scaling == "ntk" || scaling == "dynamic_ntk";
  k.require(!by_base || dims > 2, {"position.rope_scaling", "position.rope_dims"},
            fmt::format("position.rope_scaling = {} needs more than 2 rotated dimensions; position.rope_dims = {}",
                        scaling, dims));
  const double low = k.number("llama3_low_freq_factor");
  const double high = k.number("llama3_high_freq_factor");
  k.require(scaling != "llama3" || low < high, {"position.llama3_low_freq_factor", "position.llama3_high_freq_factor"},
            fmt::format("position.llama3_low_freq_factor = {} must be less than position.llama3_high_freq_factor = {}",
                        low, high));
  const double fast = k.number("yarn_beta_fast");
  const double slow = k.number("yarn_beta_slow");
  k.require(scaling != "yarn" || fast > slow, {"position.yarn_beta_fast", "position.yarn_beta_slow"},
            fmt::format("position.yarn_beta_fast = {} must be greater than position.yarn_beta_slow = {}", fast, slow));
}

void check_rope(Checker& k) {
  const int64_t d_head = k.c.model.d_head;
  const bool divides = k.as_given().model.d_head != 0 || k.c.model.d_model % k.c.model.n_heads == 0;
  const int64_t dims = static_cast<int64_t>(k.number("rope_dims"));
  if (k.is_given("position.rope_dims") && dims != d_head) {
    k.require(dims % 2 == 0, {"position.rope_dims"}, fmt::format("position.rope_dims = {} must be even", dims));
    k.require(!divides || dims <= d_head, {"position.rope_dims", "model.d_head"},
              fmt::format("position.rope_dims = {} exceeds model.d_head = {}", dims, d_head));
  } else if (divides) {
    k.require(
        d_head % 2 == 0, {"model.d_head", "model.d_model", "model.n_heads"},
        fmt::format("position.encoding = rope rotates pairs, but the width of a head is odd: model.d_head = {} "
                    "of model.d_model = {} and model.n_heads = {}; give an even model.d_head or position.rope_dims",
                    d_head, k.c.model.d_model, k.c.model.n_heads));
  }
  check_rope_scaling(k);
}

void check_t5(Checker& k) {
  const int64_t buckets = static_cast<int64_t>(k.number("t5_buckets"));
  const int64_t reach = static_cast<int64_t>(k.number("t5_max_distance"));
  const bool causal = k.c.attention.causal;
  const int64_t exact = (causal ? buckets : buckets / 2) / 2;
  k.require(exact >= 1, {"position.t5_buckets", "attention.causal"},
            fmt::format("position.t5_buckets = {} is too few with attention.causal = {}; at least {}", buckets, causal,
                        causal ? 2 : 4));
  k.require(exact < 1 || reach > exact, {"position.t5_max_distance", "position.t5_buckets", "attention.causal"},
            fmt::format("position.t5_max_distance = {} must exceed {}, the distances with a bucket of their own at "
                        "position.t5_buckets = {} and attention.causal = {}",
                        reach, exact, buckets, causal));
}

void check_position(Checker& k) {
  const std::string& encoding = k.c.position.encoding;
  if (encoding == "rope") check_rope(k);
  if (encoding == "t5") check_t5(k);
  k.require(encoding != "sinusoidal" || k.c.model.d_model % 2 == 0, {"model.d_model", "position.encoding"},
            fmt::format("model.d_model = {} must be even with position.encoding = sinusoidal", k.c.model.d_model));
}

void check_reach_in_training(Checker& k) {
  const std::string& encoding = k.c.position.encoding;
  const int64_t context = k.c.train.context_length;
  const int64_t table = k.c.position.max_length;
  if (encoding == "learned") {
    k.require(table >= context, {"position.max_length", "train.context_length"},
              fmt::format("position.max_length = {} is less than train.context_length = {}; a learned table needs a "
                          "row for every position",
                          table, context));
    std::vector<int64_t> beyond;
    std::copy_if(k.c.eval.lengths.begin(), k.c.eval.lengths.end(), std::back_inserter(beyond),
                 [&](int64_t length) { return length > table; });
    k.warn(!beyond.empty() && table >= context && !is_task(k.c), {"eval.lengths", "position.max_length"},
           fmt::format("eval.lengths {} exceed position.max_length = {}, where the learned table ends",
                       format_value(beyond), table));
  }
  const auto far = [&](const char* scheme, const char* key) {
    const int64_t reach = static_cast<int64_t>(k.number(key));
    k.warn(
        encoding == scheme && reach > context, {std::string("position.") + key, "train.context_length"},
        fmt::format("position.{} = {} exceeds train.context_length = {}; what stands for farther offsets never trains",
                    key, reach, context));
  };
  far("t5", "t5_max_distance");
  far("shaw", "shaw_clip");
}

/// The task's own rules: which symbols and lengths it has, and that its longest training problem fits the context.
void check_task(Checker& k) {
  const DataConfig& d = k.c.data;
  std::string reason;
  try {
    const int64_t tokens = problem_tokens(make_task(d), d.max_length);
    k.require(tokens <= k.c.train.context_length, {"data.max_length", "train.context_length"},
              fmt::format("a problem of data.max_length = {} takes {} tokens, more than train.context_length = {}",
                          d.max_length, tokens, k.c.train.context_length));
  } catch (const DataError& e) {
    reason = e.what();
  }
  k.require(reason.empty(), {"data.task"}, reason);
}

void check_data(Checker& k, Purpose purpose) {
  const DataConfig& d = k.c.data;
  if (purpose == Purpose::probe && k.c.probe.inputs == "normal") return;
  k.require(d.source == "task" || !d.path.empty(), {"data.path", "data.source"},
            fmt::format("data.path must be given for data.source = {}", d.source));
  k.require(d.source != "task" || d.min_length <= d.max_length, {"data.min_length", "data.max_length"},
            fmt::format("data.min_length = {} exceeds data.max_length = {}", d.min_length, d.max_length));
  if (d.source == "task" && d.min_length <= d.max_length) check_task(k);
  k.require(d.source != "text" || d.tokenizer != "sentencepiece", {"data.tokenizer"},
            "data.tokenizer = sentencepiece is not available in this version; use bytes or chars");
  const int64_t vocabulary = k.c.model.vocab_size;
  const bool bytes = d.source == "text" && d.tokenizer == "bytes";
  k.require(
      !bytes || vocabulary == 0 || vocabulary >= 256, {"model.vocab_size", "data.tokenizer"},
      fmt::format("model.vocab_size = {} is too small for data.tokenizer = bytes, which has 256 tokens", vocabulary));
}

void check_train(Checker& k) {
  const TrainConfig& t = k.c.train;
  const OptimConfig& o = k.c.optim;
  k.require(t.device != "cuda" || kHasCuda, {"train.device"},
            "train.device = cuda is not available: this build has no CUDA; use cpu");
  k.require(t.dtype != "bf16", {"train.dtype"}, "train.dtype = bf16 is not available in this version; use f32 or f64");
  k.require(o.min_lr <= o.lr, {"optim.min_lr", "optim.lr"},
            fmt::format("optim.min_lr = {} exceeds optim.lr = {}", o.min_lr, o.lr));
  k.require(o.warmup_steps <= t.steps, {"optim.warmup_steps", "train.steps"},
            fmt::format("optim.warmup_steps = {} exceeds train.steps = {}", o.warmup_steps, t.steps));
  k.warn(!k.c.attention.causal && k.c.probe.inputs != "normal", {"attention.causal"},
         "attention.causal = false lets every position see the token that it has to predict");
}

void check_eval(Checker& k) {
  const EvalConfig& e = k.c.eval;
  if (is_task(k.c)) return;
  const int64_t shortest = e.lengths.front();
  k.require(e.protocol != Protocol::same_tokens || e.tail <= shortest, {"eval.tail", "eval.lengths"},
            fmt::format("eval.tail = {} exceeds {}, the shortest of eval.lengths", e.tail, shortest));
  k.require(e.protocol != Protocol::sliding || e.stride <= shortest, {"eval.stride", "eval.lengths"},
            fmt::format("eval.stride = {} exceeds {}, the shortest of eval.lengths", e.stride, shortest));
  constexpr int64_t kFarthest = 1024;
  const int64_t context = k.c.train.context_length;
  k.require(e.lengths.back() / kFarthest <= context, {"eval.lengths", "train.context_length"},
            fmt::format("the longest of eval.lengths, {}, is more than {} times train.context_length = {}",
                        e.lengths.back(), kFarthest, context));
}

}  // namespace

void check_across_keys(const AppliedEntries& given, ResolvedConfig& resolved, Purpose purpose,
                       std::vector<std::string>& errors) {
  Checker k(given, resolved, errors);
  check_model(k);
  check_attention(k);
  check_position(k);
  if (purpose == Purpose::model) return;
  check_reach_in_training(k);
  check_data(k, purpose);
  check_train(k);
  check_eval(k);
}

}  // namespace ropewalk
