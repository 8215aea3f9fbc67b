"""Models with seeded random weights, made from configurations: nothing is downloaded."""

import torch
import torch.nn.functional as functional


class Infer:
    """Inference of a model in bf16."""

    def __init__(self, model, device, *inputs):
        self.model = model.to(device, torch.bfloat16).eval()
        self.inputs = [it.to(device) for it in inputs]

    @torch.no_grad()
    def __call__(self):
        told = self.model(*self.inputs)
        return getattr(told, "last_hidden_state", told)


class Train:
    """A training step: forward in bf16, backward, SGD."""

    def __init__(self, model, device, loss, compiled=False):
        self.model, self.device = model, device
        self.forward = torch.compile(loss) if compiled else loss
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16):
            loss = self.forward()
        loss.backward()
        self.optimizer.step()
        self.loss = loss
        return loss

    def outputs(self):
        """The last loss and two parameters."""
        parameters = list(self.model.parameters())
        return [self.loss, parameters[0], parameters[-1]]


def resnet50(options, batch, train=False):
    """ResNet-50, channels last."""
    import torchvision

    size, batch = (32, 2) if options.tiny else (224, batch)
    model = torchvision.models.resnet18() if options.tiny else torchvision.models.resnet50()
    x = torch.randn(batch, 3, size, size).contiguous(memory_format=torch.channels_last)
    if not train:
        return Infer(model.to(memory_format=torch.channels_last), options.device, x.to(torch.bfloat16))
    model = model.to(options.device, memory_format=torch.channels_last)
    x, y = x.to(options.device), torch.randint(0, 1000, (batch,)).to(options.device)
    return Train(model, options.device, lambda: functional.cross_entropy(model(x), y))


def gpt2(options, batch, length, compiled=False):
    """GPT-2 small, training."""
    from transformers import GPT2Config, GPT2LMHeadModel

    small = {"n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 128} if options.tiny else {}
    length = 16 if options.tiny else length
    config = GPT2Config(**small, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    model = GPT2LMHeadModel(config).to(options.device).train()
    ids = torch.randint(0, config.vocab_size, (batch, length)).to(options.device)
    return Train(model, options.device, lambda: model(input_ids=ids, labels=ids).loss, compiled)


def vit(options, batch):
    """ViT-B/16: timm's, else torchvision's."""
    size = 32 if options.tiny else 224
    x = torch.randn(2 if options.tiny else batch, 3, size, size).to(torch.bfloat16)
    try:
        import timm
        small = {"img_size": 32, "embed_dim": 32, "depth": 2, "num_heads": 2} if options.tiny else {}
        model = timm.create_model("vit_base_patch16_224", pretrained=False, **small)
    except ImportError:
        import torchvision
        model = torchvision.models.vision_transformer.VisionTransformer(
            image_size=size, patch_size=16, num_layers=12, num_heads=12, hidden_dim=768, mlp_dim=3072)
    return Infer(model, options.device, x)


def bert(options, batch, length):
    """BERT base."""
    from transformers import BertConfig, BertModel

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(**(small if options.tiny else {}))
    ids = torch.randint(0, config.vocab_size, (2, 16) if options.tiny else (batch, length))
    return Infer(BertModel(config), options.device, ids)


class LlamaLike:
    """A decoder as Llama has it: RMSNorm, rotary positions, grouped queries, SwiGLU, a static cache.

    A step is eight tokens of one sequence, each picked by the largest logit on the device.
    """

    HEAD, GROUP, VOCABULARY, LENGTH, TOKENS = 64, 4, 32_000, 256, 8

    def __init__(self, options, layers, width, graph=False):
        self.device = options.device
        if options.tiny:
            layers, width = 2, 128
        self.vocabulary = 256 if options.tiny else self.VOCABULARY
        self.width, self.heads = width, width // self.HEAD
        self.groups = max(1, self.heads // self.GROUP)
        inner = width * 11 // 4
        kept = self.groups * self.HEAD

        def weight(rows, columns):
            return torch.randn(rows, columns, device=self.device, dtype=torch.bfloat16) * columns ** -0.5

        self.table = weight(self.vocabulary, width)
        self.layers = [{"q": weight(width, width), "k": weight(kept, width), "v": weight(kept, width),
                        "o": weight(width, width), "gate": weight(inner, width), "up": weight(inner, width),
                        "down": weight(width, inner),
                        "cache": torch.zeros(2, self.groups, self.LENGTH, self.HEAD, device=self.device,
                                             dtype=torch.bfloat16)}
                       for _ in range(layers)]
        self.place = torch.zeros(1, dtype=torch.long, device=self.device)
        self.token = torch.ones(1, dtype=torch.long, device=self.device)
        self.far = torch.arange(self.LENGTH, device=self.device)
        half = torch.arange(0, self.HEAD, 2, device=self.device, dtype=torch.float32) / self.HEAD
        self.frequencies = 10_000.0 ** -half
        self.graph = None
        if graph and self.device == "cuda":
            self._capture()

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
            self.graph.replay() if self.graph else self._one()
        return self.logits
