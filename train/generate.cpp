#include "train/generate.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "framework/error.h"
#include "train/cache_size.h"
#include "train/decoder.h"
#include "train/memory.h"

namespace ropewalk {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int64_t size_of_prompt(const GenerationRequest& request, std::size_t i) {
  return static_cast<int64_t>(request.prompts[i].size());
}

void check(const Transformer& model, const GenerationRequest& request) {
  require(!request.prompts.empty(), "there is no prompt to go on from");
  require(request.tokens >= 1, "tokens = {}: at least 1 must be asked for", request.tokens);
  const int64_t vocabulary = model.config().model.vocab_size;
  const int64_t greatest = model.greatest_length();
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    const int64_t size = size_of_prompt(request, i);
    require(size >= 1, "prompt {} is empty; a model needs a token to go on from", i + 1);
    require(greatest == 0 || size <= greatest,
            "prompt {} has {} tokens, but the model has positions for {} ({}); shorten it", i + 1, size, greatest,
            model.limited_by());
    for (const int32_t id : request.prompts[i]) {
      require(id >= 0 && id < vocabulary, "prompt {} holds the token id {}; the vocabulary has {} tokens, from 0 on",
              i + 1, id, vocabulary);
    }
  }
}

/// One batch: the prompts of these numbers.
class PromptBatch {
 public:
  PromptBatch(Transformer& model, const GenerationRequest& request, std::vector<std::size_t> members, Generation& out)
      : model_(model), request_(request), alive_(std::move(members)), out_(out), sampler_(request.sampling) {
    for (const std::size_t i : alive_) longest_ = std::max(longest_, size_of_prompt(request, i));
  }

  void run(const TokenCallback& each) {
    const auto count = static_cast<int64_t>(alive_.size());
    const int64_t greatest = model_.greatest_length();
    int64_t capacity = longest_ + request_.tokens - 1;  // the last token is not fed again
    if (greatest > 0) capacity = std::min(capacity, greatest);
    check_cache(count, capacity);
    std::vector<int64_t> padding;
    for (const std::size_t i : alive_) padding.push_back(longest_ - size_of_prompt(request_, i));

    const Clock::time_point start = Clock::now();
    Decoder decoder(model_, count, capacity, padding);
    std::vector<int32_t> chosen = choose(decoder.feed(padded_prompts(), longest_));
    const auto count_cache = [&] { out_.cache_bytes = std::max(out_.cache_bytes, decoder.cache().bytes()); };
    count_cache();
    out_.prefill_seconds += seconds_since(start);
    while (true) {
      std::vector<int64_t> kept;
      std::vector<std::size_t> alive;
      std::vector<int32_t> next;
      for (std::size_t row = 0; row < alive_.size(); ++row) {
        if (!take(alive_[row], chosen[row], greatest, each)) continue;
        kept.push_back(static_cast<int64_t>(row));
        alive.push_back(alive_[row]);
        next.push_back(chosen[row]);
      }
      if (kept.empty()) return;
      const Clock::time_point step = Clock::now();
      if (kept.size() < alive_.size()) decoder.keep(kept);
      alive_ = std::move(alive);
      chosen = choose(decoder.feed(next, 1));
      count_cache();
      out_.decode_seconds += seconds_since(step);
      out_.decoded_tokens += static_cast<int64_t>(alive_.size());
    }
  }

 private:
  void check_cache(int64_t sequences, int64_t capacity) const {
    const double bytes = cache_bytes(model_.config(), sequences, capacity, model_.dtype());
    const double have = machine_bytes();
    require(bytes <= have,
            "the cache of {} sequences of up to {} tokens takes {}, the machine has {}; ask for fewer tokens or fewer "
            "prompts at a time",
            sequences, capacity, bytes_text(bytes), bytes_text(have));
  }

  std::vector<int32_t> padded_prompts() const {
    std::vector<int32_t> tokens;
    for (const std::size_t i : alive_) {
      const std::vector<int32_t>& prompt = request_.prompts[i];
      tokens.insert(tokens.end(), static_cast<std::size_t>(longest_) - prompt.size(), 0);
      tokens.insert(tokens.end(), prompt.begin(), prompt.end());
    }
    return tokens;
  }

  int64_t length_of(std::size_t i) const {
    return size_of_prompt(request_, i) + static_cast<int64_t>(out_.sequences[i].tokens.size());
  }

  std::vector<int32_t> choose(const Tensor& logits) {
    std::vector<int32_t> chosen;
    for (std::size_t row = 0; row < alive_.size(); ++row) {
      const std::size_t i = alive_[row];
      chosen.push_back(sampler_.choose(logits, static_cast<int64_t>(row),
                                       request_.first_sequence + static_cast<int64_t>(i), length_of(i)));
    }
    return chosen;
  }

  /// Appends a token to sequence i; false where that is its last.
  bool take(std::size_t i, int32_t token, int64_t greatest, const TokenCallback& each) {
    GeneratedSequence& sequence = out_.sequences[i];
    sequence.tokens.push_back(token);
    each(static_cast<int64_t>(i), token);
    if (token == request_.end_token) {
      sequence.ending = Ending::end_token;
    } else if (static_cast<int64_t>(sequence.tokens.size()) == request_.tokens) {
      sequence.ending = Ending::tokens;
    } else if (greatest > 0 && length_of(i) > greatest) {
      sequence.ending = Ending::greatest_length;
    } else {
      return true;
    }
    return false;
  }

  Transformer& model_;
  const GenerationRequest& request_;
  std::vector<std::size_t> alive_;  ///< the prompts of the rows of the cache
  Generation& out_;
  Sampler sampler_;
  int64_t longest_ = 0;
};

}  // namespace

Generation generate(Transformer& model, const GenerationRequest& request, const TokenCallback& each) {
  check(model, request);
  std::map<int64_t, std::vector<std::size_t>> batches;
  Generation out;
  out.sequences.resize(request.prompts.size());
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    const int64_t size = size_of_prompt(request, i);
    out.prompt_tokens += size;
    batches[model.depends_on_length() ? size : 0].push_back(i);
  }
  for (auto& [length, members] : batches) PromptBatch(model, request, std::move(members), out).run(each);
  return out;
}

}  // namespace ropewalk
