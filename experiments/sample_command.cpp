#include "experiments/sample_command.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "data/error.h"
#include "data/files.h"
#include "data/tasks/task.h"
#include "data/text_stream.h"
#include "experiments/terminal.h"
#include "framework/message.h"
#include "train/cache_size.h"
#include "train/generate.h"
#include "train/memory.h"
#include "train/text.h"
#include "train/trained_run.h"

namespace ropewalk {
namespace {

struct Prompt {
  std::vector<int32_t> tokens;
  bool given = true;  ///< otherwise it stands for an empty one and is not shown
};

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, const std::string& text, const std::string& name) {
  try {
    return encode(tokenizer, text, name);
  } catch (const DataError& error) {
    throw UsageError(error.what());
  }
}

/// "1,2,3" as ids.
std::vector<int32_t> read_ids(const Tokenizer& tokenizer, const std::string& list, const std::string& name) {
  std::vector<int32_t> ids;
  const char* at = list.data();
  const char* end = at + list.size();
  while (at != end) {
    int32_t id = 0;
    const auto [rest, problem] = std::from_chars(at, end, id);
    const bool number = problem == std::errc() && (rest == end || (*rest == ',' && rest + 1 != end));
    if (!number || id < 0 || id >= tokenizer.vocab_size) {
      throw UsageError(fmt::format("{}: '{}' is no list of token ids from 0 to {}, as 1,2,3", name, printable(list),
                                   tokenizer.vocab_size - 1));
    }
    ids.push_back(id);
    at = rest == end ? end : rest + 1;
  }
  return ids;
}

/// The token that an empty prompt stands for: what stands before the beginning of a line or of a problem.
int32_t first_token(const Tokenizer& tokenizer) {
  switch (tokenizer.kind) {
    case Tokenizer::Kind::bytes:
      return '\n';
    case Tokenizer::Kind::chars:
      if (std::binary_search(tokenizer.chars.begin(), tokenizer.chars.end(), U'\n')) return encode(tokenizer, "\n")[0];
      throw UsageError(
          "an empty prompt stands for a line end, and the text of this run has none; give a prompt: --prompt TEXT");
    case Tokenizer::Kind::symbols:
      return kBegin;
    case Tokenizer::Kind::ids:
      break;
  }
  throw UsageError("this run knows token ids only, and none that begins a text; give some: --prompt-ids 1,2,3");
}

std::vector<Prompt> read_prompts(const Arguments& arguments, const Tokenizer& tokenizer) {
  std::vector<Prompt> out;
  for (const auto& [flag, value] : arguments.texts) {
    const std::string name = fmt::format("prompt {}", out.size() + 1);
    if (flag == "--prompt-ids") {
      out.push_back({read_ids(tokenizer, value, name)});
    } else if (flag == "--prompt-file") {
      out.push_back({encode_prompt(tokenizer, read_file(value), value)});
    } else {
      out.push_back({encode_prompt(tokenizer, value, name)});
    }
  }
  if (out.empty()) out.emplace_back();
  for (Prompt& prompt : out) {
    if (prompt.tokens.empty()) prompt = {{first_token(tokenizer)}, false};
  }
  return out;
}

Sampling read_sampling(const Arguments& arguments) {
  Sampling out;
  out.temperature = real_number(arguments, "--temperature", out.temperature, 0, 1000);
  out.top_k = whole_number(arguments, "--top-k", out.top_k, 1, std::numeric_limits<int32_t>::max());
  out.top_p = real_number(arguments, "--top-p", out.top_p, 0, 1);
  out.seed = static_cast<uint64_t>(
      whole_number(arguments, "--seed", static_cast<int64_t>(out.seed), 0, std::numeric_limits<int64_t>::max()));
  for (const char* flag : {"--top-k", "--top-p", "--seed"}) {
    if (out.temperature > 0 || !arguments.has(flag)) continue;
    throw UsageError(fmt::format(
        "{} does nothing with --temperature 0, which always takes the likeliest token; leave one out", flag));
  }
  return out;
}

/// Prints sequences one after another: of the first each piece as it comes, the others when those before are done.
class Output {
 public:
  Output(const Tokenizer& tokenizer, const std::vector<Prompt>& prompts,
         const std::function<void(const std::string&)>& print)
      : print_(print), style_(style_of(STDOUT_FILENO)), on_terminal_(isatty(STDOUT_FILENO) == 1) {
    for (const Prompt& prompt : prompts) {
      Text text{TextStream(tokenizer)};
      if (prompt.given) {
        for (const int32_t id : prompt.tokens) text.prompt += text.stream.next(id);
      }
      texts_.push_back(std::move(text));
    }
    begin(0);
  }

  void add(int64_t sequence, int32_t token) {
    Text& text = texts_[static_cast<std::size_t>(sequence)];
    const std::string piece = text.stream.next(token);
    if (sequence == 0) {
      show(piece);
    } else {
      text.waiting += piece;
    }
  }

  void finish() {
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      if (i > 0) begin(i);
      show(texts_[i].waiting + texts_[i].stream.rest());
      if (last_ != '\n') show("\n");
    }
  }

 private:
  struct Text {
    TextStream stream;
    std::string prompt = {};
    std::string waiting = {};
  };

  void begin(std::size_t i) {
    if (texts_.size() > 1) show(fmt::format("{}==> prompt {} of {} <==\n", i > 0 ? "\n" : "", i + 1, texts_.size()));
    if (texts_[i].prompt.empty()) return;
    print_(style_.bold(on_terminal_ ? harmless(texts_[i].prompt) : texts_[i].prompt));
    last_ = texts_[i].prompt.back();
  }

  void show(const std::string& text) {
    if (text.empty()) return;
    print_(on_terminal_ ? harmless(text) : text);
    last_ = text.back();
  }

  const std::function<void(const std::string&)>& print_;
  TextStyle style_;
  bool on_terminal_;
  std::vector<Text> texts_;
  char last_ = '\n';
};

std::string rate_text(int64_t tokens, double seconds) {
  return fmt::format("{:.3f} s, {:.0f} tokens/s", seconds, static_cast<double>(tokens) / std::max(seconds, 1e-9));
}

void tell(const Generation& generation, const TrainedModel& trained) {
  const ArchitectureConfig& architecture = trained.model->config();
  for (std::size_t i = 0; i < generation.sequences.size(); ++i) {
    const GeneratedSequence& sequence = generation.sequences[i];
    if (sequence.ending != Ending::greatest_length) continue;
    message("prompt {}: ends after {} new tokens, as the model has positions for {} ({})\n", i + 1,
            sequence.tokens.size(), trained.model->greatest_length(), trained.model->limited_by());
  }
  const std::size_t prompts = generation.sequences.size();
  message("prefill   {} of {}, {}\n", counted(static_cast<std::size_t>(generation.prompt_tokens), "token"),
          counted(prompts, "prompt"), rate_text(generation.prompt_tokens, generation.prefill_seconds));
  message("decoding  {}, {}\n", counted(static_cast<std::size_t>(generation.decoded_tokens), "token"),
          rate_text(generation.decoded_tokens, generation.decode_seconds));
  const double bytes = cache_bytes(architecture, 1, 1, trained.model->dtype());
  message("cache     {} bytes ({}), {:.0f} a token: {} of {:.0f}\n", generation.cache_bytes,
          bytes_text(static_cast<double>(generation.cache_bytes)), bytes,
          counted(static_cast<std::size_t>(architecture.model.n_layers), "layer"),
          bytes / static_cast<double>(architecture.model.n_layers));
}

}  // namespace

void sample_command(const Arguments& arguments, const std::function<void(const std::string&)>& print) {
  GenerationRequest request{.tokens = whole_number(arguments, "--tokens", 200, 1, 1'000'000'000),
                            .sampling = read_sampling(arguments)};
  const TrainedModel trained = load_trained_model(arguments.files.front(), arguments.overrides);
  const std::vector<Prompt> prompts = read_prompts(arguments, trained.tokenizer);
  for (const Prompt& prompt : prompts) request.prompts.push_back(prompt.tokens);
  if (trained.tokenizer.kind == Tokenizer::Kind::symbols) request.end_token = kEnd;
  // Made at the first token: what is refused is refused before anything is printed.
  std::optional<Output> output;
  const Generation generation = generate(*trained.model, request, [&](int64_t sequence, int32_t token) {
    if (!output) output.emplace(trained.tokenizer, prompts, print);
    output->add(sequence, token);
  });
  output->finish();
  tell(generation, trained);
}

}  // namespace ropewalk
