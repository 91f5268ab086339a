#include "train/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "data/tasks/task.h"
#include "train/suggest.h"

namespace ropewalk {
namespace {

constexpr int64_t kMostSteps = 1'000'000'000'000;
constexpr int64_t kLongestContext = 1 << 24;
constexpr double kMostSeeds = 9.2e18;

Limits between(double minimum, double maximum) {
  return {minimum, maximum};
}
Limits at_least(double minimum) {
  return {minimum};
}
Limits above(double minimum) {
  return {.minimum = minimum, .above_minimum = true};
}
Limits probability_below_one() {
  return {.minimum = 0, .maximum = 1, .below_maximum = true};
}

template <class T>
constexpr OptionType option_type() {
  if constexpr (std::is_same_v<T, bool>) return OptionType::boolean;
  if constexpr (std::is_same_v<T, int64_t>) return OptionType::integer;
  if constexpr (std::is_same_v<T, double>) return OptionType::real;
  if constexpr (std::is_same_v<T, std::string>) return OptionType::text;
  if constexpr (std::is_same_v<T, std::vector<int64_t>>) return OptionType::integer_list;
}

/// A key bound to the field Config::SECTION.FIELD.
template <class Section, class T>
Option field(const std::string& key, Section Config::*section, T Section::*member, const std::string& help,
             Limits limits = {}) {
  Option option{.key = key, .type = option_type<T>(), .help = help, .limits = limits};
  option.get = [=](const Config& config) -> OptionValue { return config.*section.*member; };
  option.set = [=](Config& config, const OptionValue& value) { config.*section.*member = std::get<T>(value); };
  return option;
}

/// A key whose field is a string that takes few values.
template <class Section>
Option choice(const std::string& key, Section Config::*section, std::string Section::*member,
              std::vector<std::string> choices, const std::string& help) {
  Option option = field(key, section, member, help);
  option.type = OptionType::choice;
  option.choices = std::move(choices);
  return option;
}

/// A key whose field, which `access` finds in a Config, is an enumeration.
template <class Access, class E, std::size_t N>
Option choice(std::string key, Access access, const NameTable<E, N>& names, std::string help) {
  Option option{.key = std::move(key), .type = OptionType::choice, .help = std::move(help)};
  for (const auto& [value, name] : names) option.choices.emplace_back(name);
  option.get = [=, &names](const Config& config) -> OptionValue {
    for (const auto& [value, name] : names) {
      if (value == access(config)) return std::string(name);
    }
    throw std::logic_error("an enumeration value without a name");
  };
  option.set = [=, &names](Config& config, const OptionValue& text) {
    for (const auto& [value, name] : names) {
      if (name == std::get<std::string>(text)) access(config) = value;
    }
  };
  return option;
}

/// The same for Config::SECTION.FIELD.
template <class Section, class E, std::size_t N>
Option choice(std::string key, Section Config::*section, E Section::*member, const NameTable<E, N>& names,
              std::string help) {
  const auto access = [=](auto& config) -> auto& {
    return config.*section.*member;
  };
  return choice(std::move(key), access, names, std::move(help));
}

/// The same option with the rule that gives its value where none is set.
Option derived(std::string rule, Option option) {
  option.default_text = std::move(rule);
  return option;
}

void add_model(std::vector<Option>& t) {
  constexpr auto s = &Config::model;
  using M = ModelConfig;
  t.push_back(choice(
      "model.arch", [](auto& config) -> auto& { return config.model.arch; }, kArchNames,
      "decoder: predicts the next token; encoder: reads in both directions and predicts masked tokens; "
      "encoder_decoder: writes an answer to a source (tasks)"));
  t.push_back(field("model.n_layers", s, &M::n_layers, "blocks; of an encoder_decoder in each of its stacks",
                    between(1, 10'000)));
  t.push_back(field("model.d_model", s, &M::d_model, "width of the residual stream", between(1, 1 << 20)));
  t.push_back(field("model.n_heads", s, &M::n_heads, "query heads", between(1, 65'536)));
  t.push_back(derived(
      "n_heads", field("model.n_kv_heads", s, &M::n_kv_heads,
                       "key/value heads; fewer than n_heads: grouped queries, 1: multi-query", between(0, 65'536))));
  t.push_back(
      derived("d_model / n_heads", field("model.d_head", s, &M::d_head, "width of a head", between(0, 1 << 20))));
  t.push_back(derived("4 d_model",
                      field("model.d_ff", s, &M::d_ff, "hidden width of the feed-forward layer", between(0, 1 << 24))));
  t.push_back(choice("model.activation", s, &M::activation, kActivationNames,
                     "of the feed-forward layer; swiglu and geglu add a gate projection"));
  t.push_back(choice("model.norm", s, &M::norm, kNormNames, "normalization"));
  t.push_back(
      choice("model.norm_placement", s, &M::norm_placement, kNormPlacementNames, "where the norms of a block stand"));
  t.push_back(field("model.norm_eps", s, &M::norm_eps, "added to the variance, inside the root", above(0)));
  t.push_back(field("model.bias", s, &M::bias, "biases in linear layers and LayerNorm"));
  t.push_back(field("model.qk_norm", s, &M::qk_norm, "RMSNorm of queries and keys, per head, before rotation"));
  t.push_back(field("model.dropout", s, &M::dropout, "probability to drop, in training only", probability_below_one()));
  t.push_back(field("model.tie_embeddings", s, &M::tie_embeddings, "the output head is the token embedding"));
  t.push_back(field("model.scale_embeddings", s, &M::scale_embeddings,
                    "multiply the token embedding by sqrt(d_model) before positions are added"));
  t.push_back(choice("model.init", s, &M::init, kInitNames, "initialization of the parameters"));
  t.push_back(
      derived("what the data gives", field("model.vocab_size", s, &M::vocab_size,
                                           "token ids; needed only where no data gives it", between(0, 1 << 28))));
}

Option position_option(const PositionOption& declared, const std::string& scheme) {
  Option option{.key = "position." + declared.key, .help = declared.help, .schemes = {scheme}};
  option.limits = between(declared.minimum, declared.maximum);
  option.choices = declared.choices;
  option.type = std::visit([](const auto& value) { return option_type<std::decay_t<decltype(value)>>(); },
                           declared.default_value);
  if (!option.choices.empty()) option.type = OptionType::choice;
  option.get = [key = declared.key](const Config& config) -> OptionValue {
    return std::visit([](const auto& value) -> OptionValue { return value; }, config.position.options.at(key));
  };
  option.set = [key = declared.key](Config& config, const OptionValue& value) {
    std::visit(
        [&](const auto& v) {
          if constexpr (std::is_constructible_v<PositionValue, decltype(v)>) config.position.options[key] = v;
        },
        value);
  };
  if (declared.derived_from == DerivedFrom::max_length) option.default_text = "max_length";
  if (declared.derived_from == DerivedFrom::d_head) option.default_text = "d_head";
  option.read_with = declared.read_with;
  option.fixes_parameters = declared.fixes_parameters;
  return option;
}

void add_position(std::vector<Option>& t, Config& defaults, std::span<const PositionSchemeInfo> schemes) {
  std::vector<std::string> names;
  std::string help = "how a model knows positions.";
  for (const PositionSchemeInfo& scheme : schemes) {
    names.push_back(scheme.name);
    help += fmt::format(" {}: {}{}", scheme.name, scheme.summary, scheme.name == schemes.back().name ? "" : ";");
  }
  t.push_back(choice("position.encoding", &Config::position, &PositionConfig::encoding, names, help));
  t.push_back(derived(
      "train.context_length, or position.randomize_to where that is greater",
      field("position.max_length", &Config::position, &PositionConfig::max_length,
            "rows of a learned table; the length that position scaling starts from", between(0, kLongestContext))));
  t.push_back(field("position.randomize_to", &Config::position, &PositionConfig::randomize_to,
                    "the tokens of a pass stand at a random, sorted sample of the positions below this, another one "
                    "each training step (Ruoss et al. 2023); no sequence may be longer. 0: at 0, 1, ...",
                    between(0, kLongestContext)));
  for (const PositionSchemeInfo& scheme : schemes) {
    for (const PositionOption& declared : scheme.options) {
      const auto same = [&](const Option& option) { return option.key == "position." + declared.key; };
      if (const auto known = std::find_if(t.begin(), t.end(), same); known != t.end()) {
        known->schemes.push_back(scheme.name);
        continue;
      }
      defaults.position.options[declared.key] = declared.default_value;
      t.push_back(position_option(declared, scheme.name));
    }
  }
}

void add_attention(std::vector<Option>& t) {
  constexpr auto s = &Config::attention;
  using A = AttentionConfig;
  t.push_back(choice("attention.kind", s, &A::kind, kAttentionKindNames,
                     "multi-head (with model.n_kv_heads grouped or multi-query), or multi-head latent attention"));
  t.push_back(derived("true; false with model.arch = encoder",
                      field("attention.causal", s, &A::causal,
                            "no query sees a later key (encoder_decoder: in the decoder; its encoder sees all)")));
  t.push_back(field("attention.scale_scores", s, &A::scale_scores, "multiply scores by 1 / sqrt(d_head)"));
  t.push_back(field("attention.window_radius", s, &A::window_radius,
                    "a query sees keys at most so far away, on each side; -1: all", between(-1, kLongestContext)));
  t.push_back(field("attention.global_tokens", s, &A::global_tokens,
                    "with a window: the first positions that see and are seen by all", between(0, kLongestContext)));
  t.push_back(field("attention.mla_kv_rank", s, &A::mla_kv_rank,
                    "mla: numbers in the latent that keys and values are made of", between(0, 1 << 20)));
  t.push_back(field("attention.mla_q_rank", s, &A::mla_q_rank,
                    "mla: numbers in the latent that queries are made of; 0: no latent", between(0, 1 << 20)));
  t.push_back(field("attention.mla_rope_dims", s, &A::mla_rope_dims,
                    "mla: rotated columns beside those of each head; 0: none", between(0, 1 << 20)));
  t.push_back(field("attention.mla_latent_norm", s, &A::mla_latent_norm, "mla: RMSNorm of the latents"));
  t.push_back(
      choice("attention.pattern", s, &A::pattern, kAttentionPatternNames,
             "dense: a query attends to all keys that the mask leaves; top_k: to those that a lightning indexer "
             "chooses (DeepSeek-V3.2-Exp 2025)"));
  t.push_back(field("attention.top_k", s, &A::top_k, "top_k: keys a query", between(0, kLongestContext)));
  t.push_back(field("attention.index_heads", s, &A::index_heads, "top_k: heads of the indexer", between(1, 65'536)));
  t.push_back(field("attention.index_dim", s, &A::index_dim,
                    "top_k: columns of a head of the indexer and of its key, half of which turn with the position",
                    between(4, 65'536)));
  t.push_back(choice("attention.index_precision", s, &A::index_precision, kIndexPrecisionNames,
                     "top_k: numbers in which the indexer compares; the attention itself is in those of train.dtype"));
  t.push_back(field("attention.index_hadamard", s, &A::index_hadamard,
                    "int8: turn the indexer's queries and keys by a Hadamard matrix, which spreads outliers before "
                    "they are rounded and changes nothing else"));
  t.push_back(field("attention.index_warmup_steps", s, &A::index_warmup_steps,
                    "top_k: first steps, in which attention is dense and only the indexer learns; meant for a run that "
                    "begins with a dense one (train.from)",
                    between(0, kMostSteps)));
}

/// "32, associative_recall: 256": the alphabet that most tasks have, and the others by name.
std::string default_alphabets() {
  const int64_t common = task_kinds().front().default_alphabet;
  std::string text = fmt::format("{}", common);
  for (const TaskKind& kind : task_kinds()) {
    if (kind.default_alphabet == 0 || kind.default_alphabet == common) continue;
    text += fmt::format(", {}: {}", kind.name, kind.default_alphabet);
  }
  return text;
}

void add_data(std::vector<Option>& t) {
  constexpr auto s = &Config::data;
  using D = DataConfig;
  std::vector<std::string> tasks;
  for (const TaskKind& kind : task_kinds()) tasks.emplace_back(kind.name);
  t.push_back(choice("data.source", s, &D::source, {"text", "tokens", "task"},
                     "text files, files of token ids, or a generated task"));
  t.push_back(field("data.path", s, &D::path,
                    "text and tokens: a file or a glob, from the working directory; several are read in the order of "
                    "their names"));
  t.push_back(choice("data.tokenizer", s, &D::tokenizer, {"bytes", "chars", "sentencepiece"}, "of text"));
  t.push_back(choice("data.token_dtype", s, &D::token_dtype, {"auto", "uint16", "uint32"},
                     "tokens: auto reads the llm.c header, and uint16 where there is none"));
  t.push_back(choice("data.task", s, &D::task, tasks, "the generated task"));
  t.push_back(
      field("data.min_length", s, &D::min_length, "tasks: the shortest training problem", between(1, kLongestContext)));
  t.push_back(
      field("data.max_length", s, &D::max_length, "tasks: the longest training problem", between(1, kLongestContext)));
  t.push_back(derived(
      default_alphabets(),
      field("data.alphabet", s, &D::alphabet, "tasks: payload symbols (associative_recall: keys, and as many values)",
            between(0, kGreatestAlphabet))));
  t.push_back(choice("data.digit_order", s, &D::digit_order, {"most_significant_first", "least_significant_first"},
                     "addition: how numbers are written"));
  t.push_back(field("data.gap", s, &D::gap,
                    "associative_recall: positions that hold nothing to recall between the pairs and the queries",
                    between(0, kLongestContext)));
  t.push_back(field("data.train_problems", s, &D::train_problems,
                    "tasks: size of a fixed training set that steps draw from; 0: every problem is new",
                    between(0, 1'000'000'000)));
  t.push_back(field("data.validation_fraction", s, &D::validation_fraction, "held out from the end of the text",
                    {.minimum = 0, .maximum = 1, .below_maximum = true}));
  t.push_back(field("data.mask_probability", s, &D::mask_probability,
                    "encoder: share of positions to be predicted, of which 80 % are read as a mask token, 10 % as a "
                    "random one, 10 % as they are",
                    {.minimum = 0, .maximum = 1, .above_minimum = true}));
}

void add_train(std::vector<Option>& t) {
  constexpr auto s = &Config::train;
  using T = TrainConfig;
  t.push_back(
      field("train.steps", s, &T::steps, "optimizer steps; 0, with train.from: only evaluate", between(0, kMostSteps)));
  t.push_back(
      field("train.from", s, &T::from,
            "begin with the parameters of the run in this directory, or of a .safetensors file with the names of "
            "Ropewalk, GPT-2 or Llama (ropewalk train --from); empty: drawn from train.seed. "
            "position.max_length is then the run's"));
  t.push_back(field("train.batch_size", s, &T::batch_size, "sequences a batch", between(1, 1 << 24)));
  t.push_back(field("train.context_length", s, &T::context_length,
                    "tokens a sequence; encoder_decoder: at most, of the source and of the target",
                    between(1, kLongestContext)));
  t.push_back(
      field("train.accumulate", s, &T::accumulate, "batches whose gradients make one step", between(1, 1 << 20)));
  t.push_back(field("train.micro_batch", s, &T::micro_batch,
                    "sequences that one pass carries; 0: as many as suit the cache. It changes how sums are rounded",
                    between(0, 1 << 24)));
  t.push_back(field("train.seed", s, &T::seed, "of parameters, batches and dropout", between(0, kMostSeeds)));
  t.push_back(field("train.threads", s, &T::threads, "CPU threads; the results do not depend on it", between(1, 1024)));
  t.push_back(choice("train.device", s, &T::device, {"cpu", "cuda"}, "where tensors live"));
  t.push_back(choice("train.dtype", s, &T::dtype, {"f32", "f64", "bf16"}, "of parameters and activations"));
  t.push_back(
      choice("train.on_divergence", s, &T::on_divergence, kOnDivergenceNames, "when loss or gradients are not finite"));
  t.push_back(
      field("train.checkpoint_every", s, &T::checkpoint_every, "steps; 0: at the end only", between(0, kMostSteps)));
  t.push_back(
      field("train.keep_checkpoints", s, &T::keep_checkpoints, "the newest so many stay", between(1, 1'000'000)));
}

void add_optim(std::vector<Option>& t) {
  constexpr auto s = &Config::optim;
  using O = OptimConfig;
  t.push_back(field("optim.lr", s, &O::lr, "peak learning rate", above(0)));
  t.push_back(field("optim.beta1", s, &O::beta1, "AdamW: decay of the first moment", probability_below_one()));
  t.push_back(field("optim.beta2", s, &O::beta2, "AdamW: decay of the second moment", probability_below_one()));
  t.push_back(field("optim.eps", s, &O::eps, "AdamW: added to the root of the second moment", above(0)));
  t.push_back(field("optim.weight_decay", s, &O::weight_decay,
                    "decoupled; on linear weights and the token embedding only", at_least(0)));
  t.push_back(field("optim.grad_clip", s, &O::grad_clip, "greatest global gradient norm; 0: no clipping", at_least(0)));
  t.push_back(
      derived("100; with fewer steps than that, steps / 10",
              field("optim.warmup_steps", s, &O::warmup_steps, "steps of the linear warm-up", between(0, kMostSteps))));
  t.push_back(choice("optim.schedule", s, &O::schedule, kScheduleNames, "of the learning rate, after the warm-up"));
  t.push_back(derived("lr / 10", field("optim.min_lr", s, &O::min_lr, "where the schedule ends", at_least(0))));
  t.push_back(
      field("optim.label_smoothing", s, &O::label_smoothing,
            "share of a label that is spread evenly over the vocabulary, in the training loss only: evaluations "
            "report the plain cross-entropy",
            probability_below_one()));
}

void add_eval(std::vector<Option>& t) {
  constexpr auto s = &Config::eval;
  using E = EvalConfig;
  t.push_back(field("eval.every", s, &E::every, "steps; 0: at the end only", between(0, kMostSteps)));
  t.push_back(
      derived("1, 1.5, 2, 4, 8 x train.context_length",
              field("eval.lengths", s, &E::lengths, "context lengths to evaluate at", between(1, kLongestContext))));
  t.push_back(field("eval.tokens", s, &E::tokens, "tokens scored at each length, at most", between(1, kMostSteps)));
  t.push_back(choice("eval.protocol", s, &E::protocol, kProtocolNames,
                     "same_tokens: windows of every length end at the same tokens; non_overlapping: cut, all scored; "
                     "sliding: by stride"));
  t.push_back(derived("half the shortest of eval.lengths",
                      field("eval.tail", s, &E::tail, "same_tokens: tokens scored at the end of a window",
                            between(0, kLongestContext))));
  t.push_back(derived(
      "half of each length",
      field("eval.stride", s, &E::stride, "sliding: tokens that a window moves by", between(0, kLongestContext))));
}

void add_log_and_probe(std::vector<Option>& t) {
  constexpr auto s = &Config::log;
  using L = LogConfig;
  t.push_back(field("log.every", s, &L::every, "steps between rows of loss and gradient norm", between(1, kMostSteps)));
  t.push_back(
      field("log.layers_every", s, &L::layers_every, "steps between rows a layer; 0: never", between(0, kMostSteps)));
  t.push_back(field("log.attention_every", s, &L::attention_every, "steps between rows a head; 0: never",
                    between(0, kMostSteps)));
  t.push_back(field("probe.seeds", &Config::probe, &ProbeConfig::seeds, "seeds whose initializations are probed",
                    between(0, kMostSeeds)));
  t.back().default_text = "1..20";
  t.push_back(choice("probe.inputs", &Config::probe, &ProbeConfig::inputs, {"data", "normal"},
                     "data, or N(0, 1) vectors in place of the embeddings with random labels"));
}

}  // namespace

bool Option::applies_to(const std::string& encoding) const {
  return schemes.empty() || std::find(schemes.begin(), schemes.end(), encoding) != schemes.end();
}

OptionTable::OptionTable(std::span<const PositionSchemeInfo> schemes) {
  defaults_.optim.warmup_steps = -1;  // below its limits, as min_lr: to be derived
  add_model(options_);
  add_position(options_, defaults_, schemes);
  add_attention(options_);
  add_data(options_);
  add_train(options_);
  add_optim(options_);
  add_eval(options_);
  add_log_and_probe(options_);
  for (Option& option : options_) {
    keys_.push_back(option.key);
    if (option.default_text.empty()) option.default_text = format_value(option.get(defaults_));
  }
}

const Option* OptionTable::find(std::string_view key) const {
  const auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.key == key; });
  return found == options_.end() ? nullptr : &*found;
}

std::string OptionTable::suggestion(std::string_view unknown_key) const {
  return nearest_name(unknown_key, keys_);
}

}  // namespace ropewalk
