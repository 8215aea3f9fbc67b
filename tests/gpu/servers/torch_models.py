"""Models with seeded random weights, made from configurations: nothing is downloaded."""

import torch
import torch.nn.functional as functional

from torch_work import State, Work, seeded


class Infer(Work):
    """Inference of a model in bf16."""

    DIGESTED = 1

    def __init__(self, model, *inputs):
        self.model, self.inputs = model.to(torch.bfloat16).eval(), inputs

    @torch.no_grad()
    def __call__(self):
        told = self.model(*self.inputs)
        self.out = getattr(told, "last_hidden_state", told)

    def outputs(self):
        return [self.out]


class Train(Work):
    """A training step: forward in bf16, backward, SGD.

    A digest covers the loss of the first step and the named parameters behind it: their gradients need no
    sums by atomic additions, as those behind attention or a convolution may.
    """

    DIGESTED = 1

    def __init__(self, model, device, loss, watched, compiled=False):
        self.model, self.device = model, device
        self.forward = torch.compile(loss) if compiled else loss
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        named = dict(model.named_parameters())
        self.watched = [named[it] for it in watched]
        self.state = State([*model.parameters(), *model.buffers()])

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16):
            loss = self.forward()
        loss.backward()
        self.optimizer.step()
        self.loss = loss.detach()

    def reset(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.optimizer.state.clear()
        self.state.restore()

    def outputs(self):
        return [self.loss, *self.watched]


def resnet50(options, batch, train=False):
    """ResNet-50, channels last."""
    import torchvision

    size, batch = (32, 2) if options.tiny else (224, batch)
    with seeded(options.device):
        model = torchvision.models.resnet18() if options.tiny else torchvision.models.resnet50()
        x, y = torch.randn(batch, 3, size, size), torch.randint(0, 1000, (batch,))
    model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    if not train:
        return Infer(model, x.to(torch.bfloat16))
    return Train(model.train(), options.device, lambda: functional.cross_entropy(model(x), y),
                 ("fc.weight", "fc.bias"))


def gpt2(options, batch, length, compiled=False):
    """GPT-2 small, training."""
    from transformers import GPT2Config, GPT2LMHeadModel

    small = {"n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 128, "bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(**(small if options.tiny else {}), resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                        use_cache=False)
    with seeded(options.device):
        model = GPT2LMHeadModel(config).train()
        ids = torch.randint(0, config.vocab_size, (batch, 16 if options.tiny else length))
    # What a module made on the host, such as a buffer of a constant, follows.
    model = model.to(options.device)
    last = f"transformer.h.{config.n_layer - 1}.mlp.c_proj.weight"
    return Train(model, options.device, lambda: model(input_ids=ids, labels=ids).loss,
                 ("transformer.ln_f.weight", last), compiled)


def vit(options, batch):
    """ViT-B/16: timm's, else torchvision's."""
    size = 32 if options.tiny else 224
    with seeded(options.device):
        x = torch.randn(2 if options.tiny else batch, 3, size, size, dtype=torch.bfloat16)
        try:
            import timm
            small = {"img_size": 32, "embed_dim": 32, "depth": 2, "num_heads": 2} if options.tiny else {}
            model = timm.create_model("vit_base_patch16_224", pretrained=False, **small)
        except ImportError:
            import torchvision
            model = torchvision.models.VisionTransformer(
                image_size=size, patch_size=16, num_layers=12, num_heads=12, hidden_dim=768, mlp_dim=3072)
    return Infer(model.to(options.device), x)


def bert(options, batch, length):
    """BERT base."""
    from transformers import BertConfig, BertModel

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(**(small if options.tiny else {}))
    with seeded(options.device):
        model = BertModel(config)
        ids = torch.randint(0, config.vocab_size, (2, 16) if options.tiny else (batch, length))
        mask = torch.ones_like(ids)
    return Infer(model.to(options.device), ids, mask)
