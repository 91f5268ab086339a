#include "train/config_validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "data/error.h"
#include "data/tasks/pairs.h"
#include "data/tasks/task.h"
#include "framework/tensor.h"
#include "layers/attention.h"
#include "layers/positions/options.h"
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

  /// Is d_head given, or do the heads divide d_model?
  bool heads_divide() const { return given_.config.model.d_head != 0 || c.model.d_model % c.model.n_heads == 0; }

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
  k.require(k.heads_divide(), {"model.d_model", "model.n_heads"},
            fmt::format("model.d_model = {} is not divisible by model.n_heads = {}; change one of them or give "
                        "model.d_head",
                        m.d_model, m.n_heads));
  k.require(m.n_heads % m.n_kv_heads == 0, {"model.n_heads", "model.n_kv_heads"},
            fmt::format("model.n_heads = {} is not divisible by model.n_kv_heads = {}", m.n_heads, m.n_kv_heads));
}

/// Which way the architecture reads.
void check_arch(Checker& k) {
  const bool causal = k.c.attention.causal;
  k.require(k.c.model.arch != Arch::encoder || !causal, {"attention.causal", "model.arch"},
            "model.arch = encoder reads in both directions, which attention.causal = true forbids; leave the key out, "
            "or use model.arch = decoder");
  k.require(k.c.model.arch != Arch::encoder_decoder || causal, {"attention.causal", "model.arch"},
            "attention.causal = false lets the decoder of model.arch = encoder_decoder see the tokens that it has to "
            "predict; leave the key out (its encoder reads in both directions as it is)");
}

/// What the scheme finds; of an encoder_decoder in its causal decoder and in its encoder.
PositionFindings position_findings(const Config& config, PositionUse use) {
  PositionFindings findings = check_position(use);
  if (config.model.arch != Arch::encoder_decoder || !use.causal) return findings;
  use.causal = false;
  const std::size_t of_decoder = findings.size();
  for (PositionFinding& finding : check_position(use)) {
    const auto known = findings.begin() + static_cast<std::ptrdiff_t>(of_decoder);
    if (std::find_if(findings.begin(), known, [&](const auto& f) { return f.message == finding.message; }) != known) {
      continue;
    }
    finding.message = "in the encoder, " + finding.message;
    findings.push_back(std::move(finding));
  }
  return findings;
}

void report(Checker& k, const PositionFindings& findings) {
  for (const PositionFinding& finding : findings) {
    if (finding.warning) {
      k.warn(true, finding.keys, finding.message);
    } else {
      k.require(false, finding.keys, finding.message);
    }
  }
}

/// What the position scheme itself asks for.
void check_position_scheme(Checker& k, Purpose purpose) {
  PositionUse use = position_use(architecture_of(k.c));
  if (!k.heads_divide()) use.model.d_head = 0;
  if (purpose != Purpose::model) {
    use.context_length = k.c.train.context_length;
    if (!is_task(k.c)) use.eval_lengths = k.c.eval.lengths;
  }
  report(k, position_findings(k.c, use));
  const int64_t randomized = k.c.position.randomize_to;
  k.require(randomized == 0 || use.context_length <= randomized, {"position.randomize_to", "train.context_length"},
            fmt::format("position.randomize_to = {} has too few positions for train.context_length = {}; several times "
                        "the longest sequence, for example",
                        randomized, use.context_length));
  std::vector<int64_t> beyond;
  std::copy_if(use.eval_lengths.begin(), use.eval_lengths.end(), std::back_inserter(beyond),
               [&](int64_t length) { return randomized > 0 && length > randomized; });
  k.warn(!beyond.empty(), {"eval.lengths", "position.randomize_to"},
         fmt::format("eval.lengths {} exceed position.randomize_to = {}, where positions end", fmt::join(beyond, ", "),
                     randomized));
}

/// The task's own rules: which symbols and lengths it has, and that its longest training problem fits the context, of
/// an encoder_decoder its source and its target.
void check_task(Checker& k) {
  const DataConfig& d = k.c.data;
  std::string reason;
  try {
    const Task task = make_task(d);
    const auto check_fits = [&](const char* what, int64_t tokens) {
      k.require(tokens <= k.c.train.context_length, {"data.max_length", "train.context_length"},
                fmt::format("{} of data.max_length = {} takes {} tokens, more than train.context_length = {}", what,
                            d.max_length, tokens, k.c.train.context_length));
    };
    if (k.c.model.arch == Arch::encoder_decoder) {
      const PairSizes sizes = pair_tokens(task, d.max_length);
      check_fits("the source of a problem", sizes.source);
      check_fits("the target of a problem", sizes.target);
    } else {
      check_fits("a problem", problem_tokens(task, d.max_length));
    }
  } catch (const DataError& e) {
    reason = e.what();
  }
  k.require(reason.empty(), {"data.task"}, reason);
}

void check_data(Checker& k, Purpose purpose) {
  const DataConfig& d = k.c.data;
  if (purpose == Purpose::probe && k.c.probe.inputs == "normal") return;
  const bool encoder = k.c.model.arch == Arch::encoder;
  const bool pairs = k.c.model.arch == Arch::encoder_decoder;
  k.require(
      !encoder || d.source != "task", {"data.source", "model.arch"},
      "model.arch = encoder predicts masked tokens, but data.source = task asks for an answer after a prompt; use "
      "text or tokens, or model.arch = decoder or encoder_decoder");
  k.require(!pairs || d.source == "task", {"data.source", "model.arch"},
            fmt::format("model.arch = encoder_decoder learns from pairs of source and target, which data.source = {} "
                        "does not have; use task, or model.arch = decoder or encoder",
                        d.source));
  k.require(d.source == "task" || !d.path.empty() || pairs, {"data.path", "data.source"},
            fmt::format("data.path must be given for data.source = {}", d.source));
  k.require(d.source != "task" || d.min_length <= d.max_length, {"data.min_length", "data.max_length"},
            fmt::format("data.min_length = {} exceeds data.max_length = {}", d.min_length, d.max_length));
  if (d.source == "task" && d.min_length <= d.max_length) check_task(k);
  k.require(d.source != "text" || d.tokenizer != "sentencepiece", {"data.tokenizer"},
            "data.tokenizer = sentencepiece is not available in this version; use bytes or chars");
  const int64_t vocabulary = k.c.model.vocab_size;
  const bool bytes = d.source == "text" && d.tokenizer == "bytes";
  k.require(!bytes || vocabulary == 0 || vocabulary >= (encoder ? 257 : 256), {"model.vocab_size", "data.tokenizer"},
            fmt::format("model.vocab_size = {} is too small for data.tokenizer = bytes, which has 256 tokens{}",
                        vocabulary, encoder ? " and the mask token" : ""));
}

void check_train(Checker& k, Purpose purpose) {
  const TrainConfig& t = k.c.train;
  const OptimConfig& o = k.c.optim;
  k.require(t.device != "cuda" || kHasCuda, {"train.device"},
            "train.device = cuda is not available: this build has no CUDA; use cpu");
  k.require(t.dtype != "bf16", {"train.dtype"}, "train.dtype = bf16 is not available in this version; use f32 or f64");
  k.require(o.min_lr <= o.lr, {"optim.min_lr", "optim.lr"},
            fmt::format("optim.min_lr = {} exceeds optim.lr = {}", o.min_lr, o.lr));
  k.require(t.steps > 0 || !t.from.empty(), {"train.steps", "train.from"},
            "train.steps = 0 trains nothing; give the run to evaluate as train.from, or at least 1 step");
  k.require(o.warmup_steps <= t.steps || t.steps == 0, {"optim.warmup_steps", "train.steps"},
            fmt::format("optim.warmup_steps = {} exceeds train.steps = {}", o.warmup_steps, t.steps));
  const AttentionConfig& a = k.c.attention;
  k.require(a.pattern != AttentionPattern::top_k || a.index_warmup_steps <= t.steps || t.steps == 0,
            {"attention.index_warmup_steps", "train.steps"},
            fmt::format("attention.index_warmup_steps = {} exceeds train.steps = {}", a.index_warmup_steps, t.steps));
  k.require(t.from.empty() || purpose != Purpose::probe, {"train.from"},
            "train.from is for training; a probe measures drawn parameters");
  k.warn(k.c.model.arch == Arch::decoder && !k.c.attention.causal && k.c.probe.inputs != "normal", {"attention.causal"},
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
  report(k, check_attention(architecture_of(k.c)));
  check_arch(k);
  check_position_scheme(k, purpose);
  if (purpose == Purpose::model) return;
  check_data(k, purpose);
  check_train(k, purpose);
  check_eval(k);
}

}  // namespace ropewalk
