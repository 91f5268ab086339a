#include "experiments/command_help.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/terminal.h"

namespace ropewalk {
namespace {

constexpr std::size_t kAnyNumber = 10'000;

std::vector<CommandInfo> make_infos() {
  const Flag run_directory{"--run", "DIR", "put it into this directory, which must not exist or be empty"};
  return {
      {"train",
       "FILE [section.key=value ...]",
       "one run: train, log, evaluate",
       "Trains the model that FILE describes and leaves config.ini, log.h5, events.jsonl, summary.json and\n"
       "checkpoints/ in the run's directory, which is printed at the end. Values on the command line come after those\n"
       "of the file. The first interrupt (Ctrl-C, SIGTERM) finishes the step and writes a checkpoint; --resume goes "
       "on\n"
       "from there, and the resumed run ends bit for bit as if it had never stopped.\n\n"
       "  ropewalk train run.ini\n"
       "  ropewalk train run.ini position.encoding=alibi train.seed=3\n"
       "  ropewalk train --resume runs/run/20260314T150926-5a1f0c\n\n"
       "--from begins with the parameters of another run, as train.from does in FILE: a short training on longer "
       "windows\n"
       "after position scaling, for one. What fixes the parameters must agree with that run; scaling, lengths, data of "
       "the\n"
       "same vocabulary and the optimizer may differ. Without FILE the run's own config.ini is taken. With "
       "train.steps=0\n"
       "the new run is an evaluation only.\n\n"
       "--from also takes a .safetensors file, of 'ropewalk export' or with the names of Hugging Face's GPT-2 or "
       "Llama:\n"
       "FILE then gives the architecture, and all tensors must be those of its model.\n\n"
       "  ropewalk train --from runs/positions/rope-s1 position.rope_scaling=linear position.rope_factor=4 \\\n"
       "      train.context_length=256 train.steps=45 optim.warmup_steps=5\n",
       {run_directory,
        {"--resume", "RUN", "continue the run in this directory from its newest checkpoint; no FILE"},
        {"--from", "RUN|WEIGHTS",
         "begin with the parameters of the run in this directory, or of this .safetensors file"},
        {"--name", "NAME", "without --run: runs/NAME/<time> is the run's directory; default: the file's name"}},
       0,
       1,
       true},
      {"sweep",
       "FILE [section.key=value ...]",
       "many runs side by side, compared over seeds",
       "Does every run of a sweep file, several at a time, each in a process of its own, and ends with the comparison\n"
       "and report.html. A sweep file is a run file with these sections besides:\n\n"
       "  [sweep]         name = NAME, seeds = 1..5, from = VARIANT (all others begin with its parameters)\n"
       "  [grid]          section.key = a, b, c        all combinations of its lines\n"
       "  [variant NAME]  section.key = value          one point more\n"
       "  [exclude]       rule = key=value & key=value points to leave out\n\n"
       "Started again it does what is not done yet: finished runs stay, interrupted ones go on, failed ones are tried\n"
       "again; seeds may have been added. On the command line a list makes a line of the grid.\n\n"
       "With as many runs at a time as cores (the default), each single-threaded run keeps to a core of its own;\n"
       "'taskset -c 0-3 ropewalk sweep ...' leaves the other cores to others.\n\n"
       "  ropewalk sweep positions.ini --dry-run\n"
       "  ropewalk sweep run.ini position.encoding=rope,alibi train.seed=1..5\n",
       {{"--jobs", "N", "runs at a time; default: one a core, fewer where a run has several threads", "-j"},
        {"--dry-run", "", "print the runs and stop"},
        {"--run", "DIR", "the sweep's directory; default: runs/NAME"}},
       1,
       1,
       true},
      {"eval",
       "RUN [section.key=value ...]",
       "a trained run at other lengths or with other position scaling",
       "Evaluates the newest checkpoint under the run's configuration with the values given here.\n\n"
       "  ropewalk eval runs/positions/rope-s1 eval.lengths=64,128,1024\n"
       "  ropewalk eval runs/positions/rope-s1 position.rope_scaling=yarn position.rope_factor=4\n",
       {},
       1,
       1,
       true},
      {"sample",
       "RUN [section.key=value ...]",
       "text from a trained run",
       "Continues prompts by the newest checkpoint, token by token with a key/value cache. The text goes to standard\n"
       "output as it comes, the prompt before it; speed and cache bytes go to standard error. Several prompts are\n"
       "generated side by side, each as it would be alone as prompt of that number.\n\n"
       "Logits are divided by the temperature; then the K likeliest tokens stay, and of these the fewest that reach\n"
       "the probability P together. The same seed gives the same text.\n\n"
       "An empty prompt, or none, stands for a line end, in a run of a task for <begin>. Prompts of a task are\n"
       "written as the task writes them, with blanks between the symbols, and end at <end>; a run of token files\n"
       "takes and gives ids. Keys of [position] and [attention] may be given that ropewalk eval takes too.\n\n"
       "  ropewalk sample runs/positions/rope-s1 --prompt 'In the beginning' --tokens 300 --temperature 0.8\n"
       "  ropewalk sample runs/copy/rope-s1 --prompt '<begin> a b c >' --temperature 0\n"
       "  ropewalk sample RUN --prompt A --prompt B --top-p 0.9 position.rope_scaling=yarn position.rope_factor=4\n",
       {{"--prompt", "TEXT", "what to continue; may be given several times", "", true},
        {"--prompt-file", "FILE", "a file whose whole text is a prompt", "", true},
        {"--prompt-ids", "LIST", "a prompt of token ids, as 1,2,3", "", true},
        {"--tokens", "N", "most new tokens of a prompt; default: 200"},
        {"--temperature", "T", "0: always the likeliest token; default: 1"},
        {"--top-k", "K", "only the K likeliest tokens; default: all"},
        {"--top-p", "P", "only the likeliest tokens that reach P together; default: 1, all"},
        {"--seed", "N", "default: 1"}},
       1,
       1,
       true},
      {"probe",
       "FILE [section.key=value ...]",
       "gradient norms at initialization over seeds; no training",
       "Measures forward and backward once a seed (probe.seeds) and writes each variant's log.h5. FILE may be a "
       "sweep.\n",
       {run_directory},
       1,
       1,
       true},
      {"describe",
       "FILE [section.key=value ...]",
       "parameters, FLOPs and bytes, before anything runs",
       "FILE may be a sweep: then what its variants have in common comes first, and then what is each one's own.\n",
       {},
       1,
       1,
       true},
      {"config",
       "FILE [section.key=value ...]",
       "the resolved configuration and where each value came from",
       "Prints every key at its value with its origin (default, file:line or command line); what it prints loads "
       "again\n"
       "as it stands. Of a sweep: the keys that were given, its grid and variants, and the runs that they make.\n"
       "'ropewalk help keys' explains the keys.\n",
       {{"--markdown", "", "print the tables of all keys as Markdown instead; no FILE"}},
       0,
       1,
       true},
      {"inspect",
       "RUN|SWEEP",
       "what a log holds: tables, plots in the terminal, CSV",
       "RUN is a run's directory or its log.h5, finished, killed or still running: header, what first was not finite\n"
       "and where gradients blew up, last training rows, evaluation by length, gradient norms by layer and module. "
       "For\n"
       "the directory of a sweep: the comparison of its runs so far.\n\n"
       "  ropewalk inspect RUN --plot loss --step 100..      a curve; of a sweep one for each variant\n"
       "  ropewalk inspect RUN --layers --kind ffn.down      gradient norms over step and layer\n"
       "  ropewalk inspect RUN --layers --csv                what is logged of every module\n",
       {{"--plot", "CURVE", "loss, grad_norm (over steps) or length (held-out loss over length)"},
        {"--layers", "", "a heat map of gradient norms over step and layer"},
        {"--kind", "KIND", "with --layers: of these modules, as attention.query; default: block, CSV: all"},
        {"--step", "A..B", "only these steps; one step N: the layers at it"},
        {"--rows", "N", "training rows of the table; default: 10"},
        {"--csv", "", "the numbers themselves"}}},
      {"watch",
       "RUN|SWEEP",
       "a run or sweep while it goes on, in the terminal",
       "Redraws state, progress and curves until nothing writes the run any more; where standard output is no\n"
       "terminal, a line where something changed. Nothing is written and nobody hindered: Ctrl-C ends the watching.\n",
       {{"--every", "SECONDS", "between looks; default: 1"}}},
      {"report",
       "DIR ...",
       "one self-contained HTML page",
       "A page of a sweep or a run, finished or not, or of several side by side: what the data separate, loss by "
       "length,\n"
       "training, gradients by layer, attention, every run. It needs no network and no file beside it.\n",
       {{"--output", "FILE", "where to; default: report.html in the (first) directory", "-o"}},
       1,
       kAnyNumber},
      {"export",
       "RUN [section.key=value ...]",
       "a log as CSV or TensorBoard events, weights as safetensors",
       "RUN is a run's directory, finished, killed or still running; for --csv and --tensorboard its log.h5 will do.\n"
       "The paths of what was written are printed; files of an earlier export are replaced.\n\n"
       "  ropewalk export runs/positions/rope-s1 --csv tables\n"
       "  ropewalk export runs/positions/rope-s1 --csv - --only eval\n"
       "  ropewalk export runs/positions/rope-s1 --tensorboard tensorboard/rope-s1\n"
       "  ropewalk export RUN --safetensors weights.safetensors\n"
       "  ropewalk export RUN --safetensors DIR --names llama position.rope_scaling=yarn position.rope_factor=4\n\n"
       "A table has a line for each step and place (layer, kind, length, ...) and columns called as in the log: "
       "train,\n"
       "layers, stem, residual, attention, eval, eval.loss_by_position. TensorBoard takes a directory for a run.\n\n"
       "Weights are those of the newest checkpoint. --names gpt2 and llama give the names, layout and config.json "
       "with\n"
       "which Hugging Face's transformers opens them, where the architecture is theirs; else every key that is not is\n"
       "named. Keys of [position] and [attention] may follow that 'ropewalk eval' takes too.\n",
       {{"--csv", "DIR|-", "a CSV file a table; -: one table (--only, default: train) to standard output"},
        {"--tensorboard", "DIR", "an event file"},
        {"--only", "LIST", "these tables, as train,eval; default: all"},
        {"--safetensors", "PATH",
         "the weights, into this .safetensors file or as model.safetensors into this directory"},
        {"--names", "NAMES", "of the tensors: ropewalk (default), gpt2 or llama"}},
       1,
       1,
       true},
      {"verify", "FILE.h5", "check the kernels against a conformance file",
       "Runs every case through the kernels in f64 and f32 and prints the worst error of each kind; exit code 0 only\n"
       "if none failed.\n"},
      {"bench",
       "step|ops|scaling|variants|decode|recall [SIZE|FILE] [section.key=value ...]",
       "what training and decoding cost on this machine, and what the machine allows",
       "All figures are medians, measured now. Alternatives take turns; a ratio is the median over the rounds of the\n"
       "ratio within a round, so that what slows the machine down slows both. Beside it stand its quartiles; it is\n"
       "marked noisy, and says nothing, where they differ by more than 20 % of it. A share of a roof (the FMA peak, "
       "the\n"
       "bandwidth of a cache) above 105 % is marked '?': the roof was then not measured right. A peak of several\n"
       "threads is that of one a core at most.\n\n"
       "  step      a training step: tokens/s, GFLOP/s of the matrix products and their share of the FMA peak that is\n"
       "            measured beside it, time by op, page faults, memory; --forward: a forward pass and its loss alone\n"
       "  ops       every op at the shapes it has there: time, GFLOP/s or GB/s, share of its roofline\n"
       "  scaling   over context length (full attention, and a window of 256), d_model, threads, and trainings side\n"
       "            by side; takes minutes for M\n"
       "  variants  every position encoding over none, rmsnorm over layernorm, what is logged over nothing logged\n"
       "  decode    a token with a key/value cache at positions 32 to 512, and what the cache takes\n"
       "  recall    share of the keys that an indexer chooses in f32 which int8 finds, with and without a Hadamard\n"
       "            rotation, on vectors with outliers; no time is measured\n\n"
       "FILE is an experiment file, of a sweep its first run, measured on its own data. SIZE is XS, S, M (default)\n"
       "or L, on random tokens (so that [data] is not read):\n\n"
       "  XS  d_model 32,  2 layers, 2 heads, context 32,  batch 8,  65 tokens\n"
       "  S   d_model 64,  4 layers, 4 heads, context 64,  batch 32, 65 tokens\n"
       "  M   d_model 128, 6 layers, 4 heads, context 128, batch 32, 256 tokens\n"
       "  L   d_model 384, 6 layers, 6 heads, context 256, batch 16, 256 tokens\n\n"
       "  ropewalk bench step M position.encoding=rope train.threads=2\n"
       "  ropewalk bench step M --forward train.context_length=4096 train.batch_size=1\n"
       "  ropewalk bench ops M --only attention train.context_length=8192 train.batch_size=1\n"
       "  ropewalk bench scaling S --over length --values 128,1024\n",
       {{"--json", "", "one JSON object"},
        {"--seconds", "N",
         "measure about so long, 0.5 for half a second; default: step and decode 3, ops 6, each table of scaling and "
         "variants 10"},
        {"--forward", "", "step: no training, a forward pass and the loss of every token"},
        {"--only", "TEXT", "ops: those with TEXT in their names, as attention"},
        {"--over", "AXIS", "scaling: one table only; length, width, threads or jobs"},
        {"--values", "LIST", "scaling: these values of the axis, as 128,1024"}},
       1,
       2,
       true},
      {"recover", "RUN", "make the log of a killed run a clean file",
       "Rewrites log.h5 with all rows that were flushed, so that every HDF5 and netCDF program opens it. Do not use\n"
       "h5clear on such a file: it can destroy the data.\n"},
  };
}

std::string flag_lines(const std::vector<Flag>& flags) {
  std::string out;
  for (const Flag& flag : flags) {
    const std::string name =
        (flag.shorter.empty() ? "" : flag.shorter + ", ") + flag.name + (flag.value.empty() ? "" : " " + flag.value);
    out += fmt::format("  {:<20} {}\n", name, flag.help);
  }
  return out;
}

}  // namespace

const std::vector<CommandInfo>& command_infos() {
  static const std::vector<CommandInfo> infos = make_infos();
  return infos;
}

const CommandInfo* find_command(std::string_view name) {
  const auto& infos = command_infos();
  const auto found = std::find_if(infos.begin(), infos.end(), [&](const CommandInfo& i) { return i.name == name; });
  return found == infos.end() ? nullptr : &*found;
}

std::string overview_help() {
  std::string out =
      "ropewalk: train Transformers short, test them long, and see what the data separate\n\n"
      "usage: ropewalk COMMAND ...\n\n";
  for (const CommandInfo& info : command_infos()) out += fmt::format("  {:<10} {}\n", info.name, info.summary);
  out +=
      "\n  ropewalk COMMAND --help     its arguments and flags\n"
      "  ropewalk help keys          every key of a configuration file: values, default, meaning\n"
      "  ropewalk --version\n\n"
      "Experiments are INI files; section.key=value words on the command line override them:\n\n"
      "  ropewalk train my.ini position.encoding=alibi optim.lr=3e-4\n"
      "  ropewalk sweep experiments/positions.ini\n\n"
      "Data go to standard output, all else to standard error. Exit codes: 0 done, 1 error, 2 usage or\n"
      "configuration, 3 diverged, 4 unreadable data or log, 130 and 143 interrupted.\n";
  return out;
}

std::string command_help(const CommandInfo& command) {
  std::string out = fmt::format("usage: ropewalk {}{} {}\n\n{}\n", command.name,
                                command.flags.empty() ? "" : " [FLAGS]", command.usage, command.summary);
  if (!command.text.empty()) out += "\n" + command.text;
  if (!command.flags.empty()) out += "\nflags\n" + flag_lines(command.flags);
  if (command.takes_overrides) out += "\nConfiguration keys: ropewalk help keys\n";
  return out;
}

}  // namespace ropewalk
