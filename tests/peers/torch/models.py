"""Models of other people's packages in small, with weights by chance: output, gradients, ten steps of training."""

import torch
import torch.nn.functional as F

from compare import gradients, losses, worst


class Language:
    """A language model: the loss is of each token's prediction from those before it."""

    @staticmethod
    def output(model, tokens):
        return model(input_ids=tokens, use_cache=False).logits

    @staticmethod
    def loss(logits, tokens):
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


class Labels:
    """A model that tells classes apart."""

    @staticmethod
    def output(model, inputs, _labels):
        return model(inputs)

    @staticmethod
    def loss(logits, _inputs, labels):
        return F.cross_entropy(logits, labels)


class Sentences(Labels):
    """The same of sentences."""

    @staticmethod
    def output(model, tokens, _labels):
        return model(input_ids=tokens).logits


class Sequences:
    """A model of sequences that is to become what the second ones are."""

    @staticmethod
    def output(model, inputs, _wanted):
        return model(inputs)

    @staticmethod
    def loss(outputs, _inputs, wanted):
        return F.mse_loss(outputs, wanted)


def _tokens(*shape):
    return torch.randint(0, 200, shape)


def _pictures(size):
    return [torch.randn(4, 3, size, size), torch.randint(0, 10, (4,))]


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=200, n_positions=64, n_embd=64, n_layer=2, n_head=4,
                        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    return GPT2LMHeadModel(config), Language, [_tokens(2, 32)]


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=200, hidden_size=64, intermediate_size=160, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    return LlamaForCausalLM(config), Language, [_tokens(2, 32)]


def bert():
    from transformers import BertConfig, BertForSequenceClassification
    config = BertConfig(vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=128, max_position_embeddings=64, num_labels=5,
                        hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    return BertForSequenceClassification(config), Sentences, [_tokens(4, 24), torch.randint(0, 5, (4,))]


def resnet18():
    from torchvision.models import resnet18 as make
    # What is normed over few elements makes much of little: the CPU's own losses in 32 and 64 bits would
    # differ by more than is allowed with smaller pictures or larger steps.
    return make(num_classes=10), Labels, _pictures(64), 1e-4


def vision_transformer():
    from torchvision.models import VisionTransformer
    model = VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64,
                              mlp_dim=128, num_classes=10)
    torch.nn.init.normal_(model.heads.head.weight, std=0.1)
    return model, Labels, _pictures(32)


def perceptron():
    from torch import nn
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, Labels, [torch.randn(16, 1, 28, 28), torch.randint(0, 10, (16,))]


def encoder():
    from torch import nn
    # In evaluation torch takes one kernel of its own for a whole layer.
    torch.backends.mha.set_fastpath_enabled(False)
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return model, Sequences, [torch.randn(2, 20, 64), torch.randn(2, 20, 64)]


def _forward(make):
    """The model's output, in evaluation."""
    model, kind, batch, *_ = make()
    model.eval()
    with torch.no_grad():
        want = kind.output(model, *batch)
        model.to("cuda")
        return worst(torch.compile(kind.output)(model, *(it.to("cuda") for it in batch)), want)


def _cases():
    for make in (perceptron, encoder, gpt2, llama, bert, resnet18, vision_transformer):
        for way in (_forward, gradients, losses):
            name = f"{make.__name__} {way.__name__.strip('_')}".replace("_", " ")
            yield name, (lambda make=make, way=way: way(make) if way is _forward else way(*make()))


CASES = dict(_cases())
