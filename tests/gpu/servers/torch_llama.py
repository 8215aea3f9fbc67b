"""A decoder as Llama has it, written out, so that no library's version matters."""

import torch
import torch.nn.functional as functional

from torch_work import Work, seeded


class LlamaLike(Work):
    """RMSNorm, rotary positions, grouped queries, SwiGLU, a static cache.

    A step is eight tokens of one sequence, each picked by the largest logit on the device.
    """

    DIGESTED = 1
    HEAD, GROUP, VOCABULARY, LENGTH, TOKENS = 64, 4, 32_000, 256, 8

    def __init__(self, options, layers, width, graph=False):
        self.device = options.device
        layers, width = (2, 128) if options.tiny else (layers, width)
        self.width, self.heads = width, width // self.HEAD
        self.groups = max(1, self.heads // self.GROUP)
        self.graph, self.logits = None, None
        with seeded(self.device):
            self._build(layers, 256 if options.tiny else self.VOCABULARY)
        if graph and self.device == "cuda":
            self._capture()

    def _build(self, layers, vocabulary):
        width, inner, kept = self.width, self.width * 11 // 4, self.groups * self.HEAD

        def weight(rows, columns):
            return torch.randn(rows, columns, dtype=torch.bfloat16) * columns ** -0.5

        self.table = weight(vocabulary, width)
        self.layers = [{"q": weight(width, width), "k": weight(kept, width), "v": weight(kept, width),
                        "o": weight(width, width), "gate": weight(inner, width), "up": weight(inner, width),
                        "down": weight(width, inner),
                        "cache": torch.zeros(2, self.groups, self.LENGTH, self.HEAD, dtype=torch.bfloat16)}
                       for _ in range(layers)]
        self.place = torch.zeros(1, dtype=torch.long)
        self.token = torch.ones(1, dtype=torch.long)
        self.far = torch.arange(self.LENGTH)
        self.frequencies = 10_000.0 ** -(torch.arange(0, self.HEAD, 2, dtype=torch.float32) / self.HEAD)

    @torch.no_grad()
    def _capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._one()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._one()
        self.reset()

    @torch.no_grad()
    def reset(self):
        self.place.zero_()
        self.token.fill_(1)
        for it in self.layers:
            it["cache"].zero_()

    def _turned(self, x):
        angle = self.place.float() * self.frequencies
        cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(-2)

    def _one(self):
        """One token: fixed shapes and addresses, so that a graph can replay it."""
        x = self.table[self.token]
        mask = (self.far <= self.place).view(1, 1, 1, -1)
        for it in self.layers:
            y = functional.rms_norm(x, (self.width,))
            q = self._turned((y @ it["q"].t()).view(self.heads, 1, self.HEAD))
            k = self._turned((y @ it["k"].t()).view(self.groups, 1, self.HEAD))
            v = (y @ it["v"].t()).view(self.groups, 1, self.HEAD)
            it["cache"][0].index_copy_(1, self.place, k)
            it["cache"][1].index_copy_(1, self.place, v)
            keys, values = (c.repeat_interleave(self.heads // self.groups, 0)[None] for c in it["cache"])
            out = functional.scaled_dot_product_attention(q[None], keys, values, attn_mask=mask)
            x = x + out.reshape(1, self.width) @ it["o"].t()
            y = functional.rms_norm(x, (self.width,))
            x = x + (functional.silu(y @ it["gate"].t()) * (y @ it["up"].t())) @ it["down"].t()
        self.logits = functional.rms_norm(x, (self.width,)) @ self.table.t()
        self.token.copy_(self.logits.argmax(-1))
        self.place.add_(1).remainder_(self.LENGTH)

    @torch.no_grad()
    def __call__(self):
        for _ in range(self.TOKENS):
            if self.graph:
                self.graph.replay()
            else:
                self._one()

    def outputs(self):
        return [self.logits, self.token]

    def close(self):
        if self.graph:
            self.graph.reset()
            self.graph = None
