"""GPT-2 and Llama as transformers computes them, from a directory with config.json and model.safetensors, in float64.

Arguments: the directory; a safetensors file with tokens [sequences, length] and the logits that Ropewalk computes for
them; the greatest error allowed, relative to the greatest logit. Exits with 1 where it is exceeded, with 77 without
numpy. Written from the published architectures (Radford et al. 2019; Touvron et al. 2023) and the meaning that
transformers gives to the keys of config.json; it shares no code with what it checks.
"""

import json
import math
import struct
import sys

try:
    import numpy as np
except ImportError as error:
    print(error)
    sys.exit(77)

TYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64}


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(data[begin:end], dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, header.get("__metadata__", {})


def erf(x):
    return np.vectorize(math.erf)(x)


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "gelu_new": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def split_heads(x, heads):  # [B, T, H d] -> [B, H, T, d]
    b, t, width = x.shape
    return x.reshape(b, t, heads, width // heads).transpose(0, 2, 1, 3)


def attend(q, k, v, scale):
    t = q.shape[2]
    scores = q @ k.transpose(0, 1, 3, 2) * scale
    scores = np.where(np.tril(np.ones((t, t), dtype=bool)), scores, -np.inf)
    out = softmax(scores) @ v
    b, heads, t, width = out.shape
    return out.transpose(0, 2, 1, 3).reshape(b, t, heads * width)


class Weights:
    """Every tensor has to be used, so that none is missing and none is too many."""

    def __init__(self, tensors):
        self.tensors = {name: value.astype(np.float64) for name, value in tensors.items()}
        self.used = set()

    def __call__(self, name):
        self.used.add(name)
        return self.tensors[name]

    def has(self, name):
        return name in self.tensors

    def head(self, config, embedding):
        return embedding if config["tie_word_embeddings"] else self("lm_head.weight")


def gpt2(w, c, tokens):
    assert c["architectures"] == ["GPT2LMHeadModel"] and not c["scale_attn_by_inverse_layer_idx"]
    d, heads = c["n_embd"], c["n_head"]
    activation = ACTIVATIONS[c["activation_function"]]
    scale = 1 / math.sqrt(d // heads) if c["scale_attn_weights"] else 1.0

    def norm(name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        return centred / np.sqrt(variance + c["layer_norm_epsilon"]) * w(name + ".weight") + w(name + ".bias")

    def conv1d(name, x):  # weight [in, out]
        return x @ w(name + ".weight") + w(name + ".bias")

    embedding = w("transformer.wte.weight")
    positions = w("transformer.wpe.weight")
    assert embedding.shape == (c["vocab_size"], d) and positions.shape == (c["n_positions"], d)
    x = embedding[tokens] + positions[: tokens.shape[1]]
    for i in range(c["n_layer"]):
        h = f"transformer.h.{i}."
        q, k, v = np.split(conv1d(h + "attn.c_attn", norm(h + "ln_1", x)), 3, axis=-1)
        x = x + conv1d(h + "attn.c_proj", attend(*(split_heads(y, heads) for y in (q, k, v)), scale))
        hidden = conv1d(h + "mlp.c_fc", norm(h + "ln_2", x))
        assert hidden.shape[-1] == c["n_inner"]
        x = x + conv1d(h + "mlp.c_proj", activation(hidden))
    return norm("transformer.ln_f", x) @ w.head(c, embedding).T


def frequencies(c, length):
    """Inverse frequencies of the pairs (i, i + dims/2), and what queries and keys are multiplied by."""
    dims, base, scaling = c["head_dim"], c["rope_theta"], c["rope_scaling"]
    pairs = np.arange(0, dims, 2) / dims
    plain = base**-pairs
    if scaling is None:
        return plain, 1.0
    kind, factor = scaling["rope_type"], scaling["factor"]
    if kind == "linear":
        return plain / factor, 1.0
    if kind == "dynamic":
        original = c["max_position_embeddings"]
        stretch = factor * max(length, original) / original - (factor - 1)
        return (base * stretch ** (dims / (dims - 2))) ** -pairs, 1.0
    if kind == "yarn":
        original = c["max_position_embeddings"]

        def pair_of(turns):
            return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

        low = max(math.floor(pair_of(scaling["beta_fast"])), 0)
        high = min(math.ceil(pair_of(scaling["beta_slow"])), dims - 1)
        ramp = np.clip((np.arange(dims // 2) - low) / (high - low or 0.001), 0, 1)
        return plain / factor * ramp + plain * (1 - ramp), scaling["attention_factor"]
    assert kind == "llama3", kind
    original, low, high = (
        scaling[key] for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    out = []
    for f in plain:
        wavelength = 2 * math.pi / f
        smooth = min(max((original / wavelength - low) / (high - low), 0), 1)
        out.append((1 - smooth) * f / factor + smooth * f)
    return np.array(out), 1.0


def llama(w, c, tokens):
    assert c["architectures"] == ["LlamaForCausalLM"]
    heads, kv_heads, width = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    activation = ACTIVATIONS[c["hidden_act"]]
    t = tokens.shape[1]
    inverse, factor = frequencies(c, t)
    angles = np.arange(t)[:, None] * np.concatenate([inverse, inverse])
    cosine, sine = np.cos(angles) * factor, np.sin(angles) * factor

    def norm(name, x):
        return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + c["rms_norm_eps"]) * w(name + ".weight")

    def linear(name, x, bias):
        assert w.has(name + ".bias") == bias
        return x @ w(name + ".weight").T + (w(name + ".bias") if bias else 0)

    def rotated(x):  # rotate_half
        first, second = np.split(x, 2, axis=-1)
        return x * cosine + np.concatenate([-second, first], axis=-1) * sine

    embedding = w("model.embed_tokens.weight")
    assert embedding.shape == (c["vocab_size"], c["hidden_size"])
    x = embedding[tokens]
    for i in range(c["num_hidden_layers"]):
        p, a = f"model.layers.{i}.", f"model.layers.{i}.self_attn."
        y = norm(p + "input_layernorm", x)
        bias = c["attention_bias"]
        q = rotated(split_heads(linear(a + "q_proj", y, bias), heads))
        k = rotated(split_heads(linear(a + "k_proj", y, bias), kv_heads)).repeat(heads // kv_heads, axis=1)
        v = split_heads(linear(a + "v_proj", y, bias), kv_heads).repeat(heads // kv_heads, axis=1)
        x = x + linear(a + "o_proj", attend(q, k, v, 1 / math.sqrt(width)), bias)
        y = norm(p + "post_attention_layernorm", x)
        gate = activation(linear(p + "mlp.gate_proj", y, c["mlp_bias"]))
        assert gate.shape[-1] == c["intermediate_size"]
        x = x + linear(p + "mlp.down_proj", gate * linear(p + "mlp.up_proj", y, c["mlp_bias"]), c["mlp_bias"])
    return norm("model.norm", x) @ w.head(c, embedding).T


def main():
    directory, given_path, tolerance = sys.argv[1:]
    with open(directory + "/config.json") as file:
        config = json.load(file)
    tensors, metadata = read_safetensors(directory + "/model.safetensors")
    assert metadata["format"] == "pt", metadata  # without it transformers refuses the file
    kinds = {value.dtype for value in tensors.values()}
    assert kinds == {np.dtype(config["torch_dtype"])}, kinds
    given, _ = read_safetensors(given_path)
    weights = Weights(tensors)
    logits = {"gpt2": gpt2, "llama": llama}[config["model_type"]](weights, config, given["tokens"])
    assert weights.used == set(tensors), set(tensors) - weights.used
    error = np.abs(logits - given["logits"]).max() / np.abs(logits).max()
    print(f"error {error:.3g} of greatest logit {np.abs(logits).max():.3g}")
    sys.exit(0 if error <= float(tolerance) else 1)


main()
