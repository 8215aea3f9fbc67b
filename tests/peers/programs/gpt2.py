#!/usr/bin/env python3
"""A model of GPT-2's architecture on tinygrad, its weights from a seed, generates tokens.

  DEV=CUDA:PTX gpt2.py [--tokens 64]      prints one JSON object: device, tokens, seconds of each

Pre-norm blocks with GELU, learned positions, a head tied to the embedding, a cache of keys and
values: everything that GPT-2 has but its training. One JIT-compiled step a token.
"""

import argparse
import json
import time

import numpy as np
from tinygrad import Device, Tensor, TinyJit, nn

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 6, 384, 6, 1024, 128
HEAD = WIDTH // HEADS


class Attention:
    def __init__(self):
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        # Keys and values of all positions, position by position.
        self.cache = Tensor.zeros(2, POSITIONS, HEADS, HEAD).contiguous().realize()

    def __call__(self, x, position):
        query, *latest = self.c_attn(x).reshape(3, 1, HEADS, HEAD).split(1)
        now = (Tensor.arange(POSITIONS) == position).reshape(1, POSITIONS, 1, 1)
        latest = Tensor.cat(*latest).expand(2, POSITIONS, HEADS, HEAD)
        keys, values = self.cache.assign(now.where(latest, self.cache)).realize().split(1)
        query = query.reshape(1, HEADS, HEAD).permute(1, 0, 2)
        keys, values = (each.reshape(POSITIONS, HEADS, HEAD).permute(1, 0, 2)
                        for each in (keys, values))
        scores = query @ keys.transpose(1, 2) / HEAD ** 0.5
        past = (Tensor.arange(POSITIONS) <= position).reshape(1, 1, POSITIONS)
        mixed = past.where(scores, float("-inf")).softmax(-1) @ values
        return self.c_proj(mixed.reshape(1, WIDTH))


class Block:
    def __init__(self):
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.c_fc, self.c_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def __call__(self, x, position):
        x = x + self.attn(self.ln_1(x), position)
        return x + self.c_proj(self.c_fc(self.ln_2(x)).gelu())


class Model:
    def __init__(self):
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.h = [Block() for _ in range(LAYERS)]
        self.ln_f = nn.LayerNorm(WIDTH)

    def __call__(self, token, position):
        x = (self.wte(token) + self.wpe(position)).reshape(1, WIDTH)
        for block in self.h:
            x = block(x, position)
        return (self.ln_f(x) @ self.wte.weight.T)[0].argmax().realize()


def seeded(model, seed):
    """Weights from a seed, wide enough for the next token to depend on what came before."""
    numbers = np.random.default_rng(seed)
    for name, tensor in nn.state.get_state_dict(model).items():
        if name.endswith("cache"):
            continue
        drawn = numbers.standard_normal(tensor.shape).astype(np.float32)
        scale = {"wte.weight": 0.2, "wpe.weight": 1.0}.get(name, 0.06)
        ones = "ln_" in name and name.endswith("weight")
        tensor.assign(Tensor(scale * drawn + ones)).realize()
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--seed", type=int, default=5)
    arguments = parser.parse_args()
    model = seeded(Model(), arguments.seed)
    step = TinyJit(model.__call__)
    tokens, seconds = [1], []
    for position in range(arguments.tokens):
        began = time.monotonic()
        token, place = Tensor([tokens[-1]]).realize(), Tensor([position]).realize()
        tokens.append(step(token, place).item())
        seconds.append(round(time.monotonic() - began, 4))
    print(json.dumps({"device": Device.DEFAULT, "tokens": tokens[1:], "seconds": seconds}))


if __name__ == "__main__":
    main()
