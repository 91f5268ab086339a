#!/usr/bin/python3
"""One training step of a small GPT in plain PyTorch, timed: the other side of compare_with_torch.py.

    torch_step.py SIZE [--forward] [--context T] [--batch B] [--threads N] [--seconds S]

SIZE is XS, S, M or L, as in `ropewalk bench step`; --context and --batch take the place of the size's own. Pre-LN, learned
positions, erf GELU, untied head, attention through baddbmm and bmm (the fastest way of PyTorch 1), AdamW with decay on
matrices only, gradient clipping at 1. With --forward: logits and mean loss of a batch without gradients. Prints one JSON object.
"""
import argparse
import json
import math
import os
import resource
import statistics
import time

SIZES = {"XS": (32, 2, 2, 32, 8, 65), "S": (64, 4, 4, 64, 32, 65), "M": (128, 6, 4, 128, 32, 256), "L": (384, 6, 6, 256, 16, 256)}


def parse():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("size", choices=SIZES)
    arguments.add_argument("--forward", action="store_true")
    arguments.add_argument("--context", type=int)
    arguments.add_argument("--batch", type=int)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=3)
    return arguments.parse_args()


ARGUMENTS = parse()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = str(ARGUMENTS.threads)

import torch  # noqa: E402  (the thread counts must be set first)
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class Block(nn.Module):
    def __init__(self, d_model, n_heads, context):
        super().__init__()
        self.n_heads = n_heads
        self.attention_norm, self.ffn_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv, self.output = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.up, self.down = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)
        mask = torch.full((context, context), -math.inf).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def attend(self, x):
        batch, length, d_model = x.shape
        d_head = d_model // self.n_heads
        q, k, v = self.qkv(x).view(batch, length, 3, self.n_heads, d_head).permute(2, 0, 3, 1, 4)
        flat = (batch * self.n_heads, length, d_head)
        scores = torch.baddbmm(self.mask.expand(flat[0], length, length), q.reshape(flat), k.reshape(flat).transpose(1, 2),
                               alpha=1 / math.sqrt(d_head))
        y = torch.bmm(scores.softmax(-1), v.reshape(flat)).view(batch, self.n_heads, length, d_head)
        return self.output(y.transpose(1, 2).reshape(batch, length, d_model))

    def forward(self, x):
        x = x + self.attend(self.attention_norm(x))
        return x + self.down(F.gelu(self.up(self.ffn_norm(x))))


class Model(nn.Module):
    def __init__(self, d_model, n_layers, n_heads, context, vocab):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, d_model), nn.Embedding(context, d_model)
        self.blocks = nn.Sequential(*[Block(d_model, n_heads, context) for _ in range(n_layers)])
        self.final_norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab, bias=False)
        for p in self.parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        return self.head(self.final_norm(self.blocks(x)))


def main():
    d_model, n_layers, n_heads, context, batch, vocab = SIZES[ARGUMENTS.size]
    context, batch = ARGUMENTS.context or context, ARGUMENTS.batch or batch
    torch.set_num_threads(ARGUMENTS.threads)
    torch.manual_seed(1)
    model = Model(d_model, n_layers, n_heads, context, vocab)
    groups = [dict(params=[p for p in model.parameters() if p.dim() >= 2], weight_decay=0.1),
              dict(params=[p for p in model.parameters() if p.dim() < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))
    ids = torch.randint(vocab, (8, batch, context + 1))

    def loss_of(i):
        row = ids[i % len(ids)]
        return F.cross_entropy(model(row[:, :-1]).reshape(-1, vocab), row[:, 1:].reshape(-1))

    def train(i):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(i)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    def forward(i):
        with torch.no_grad():
            return loss_of(i).item()

    step = forward if ARGUMENTS.forward else train
    for i in range(3):
        step(i)
    times = []
    while len(times) < 5 or sum(times) < ARGUMENTS.seconds:
        start = time.perf_counter()
        step(len(times))
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    print(json.dumps({"name": ARGUMENTS.size, "torch": torch.__version__, "step_ms": 1e3 * median,
                      "tokens_per_s": batch * context / median,
                      "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
