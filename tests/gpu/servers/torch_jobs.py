"""The jobs of PyTorch: what makes the work of each, and how a slot runs it."""

import gc

import torch

import torch_work
from protocol import Job, Refused
from torch_llama import LlamaLike
from torch_load import Copier, Freer, Loader
from torch_models import bert, gpt2, resnet50, vit
from torch_parts import Attention, Convolution, Product, Weights

#: What makes the work of a job, from the options and the size in its name, as in `gemm_bf16:8192`.
WORKS = {
    **{f"gemm_{it}": lambda o, size, it=it: Product(o, it, int(size or 4096))
       for it in ("bf16", "fp16", "tf32", "fp8")},
    **{f"attention_{it}": lambda o, _, it=it: Attention(o, it) for it in Attention.BACKENDS},
    **{f"conv_{it}": lambda o, _, it=it: Convolution(o, it) for it in ("3x3", "1x1", "depthwise", "3d")},
    "resnet50_train": lambda o, _: resnet50(o, 64, train=True),
    "gpt2_train": lambda o, _: gpt2(o, 4, 512),
    "gpt2_train_compiled": lambda o, _: gpt2(o, 4, 512, compiled=True),
    "llama_decode": lambda o, _: LlamaLike(o, layers=16, width=2048),
    "llama_decode_graph": lambda o, _: LlamaLike(o, layers=16, width=2048, graph=True),
    "vit_infer": lambda o, _: vit(o, 32),
    "bert_infer": lambda o, _: bert(o, 16, 128),
    "launch": lambda o, _: gpt2(o, 1, 64),
    "middle": lambda o, _: resnet50(o, 8),
    "large": lambda o, _: Product(o, "bf16", 8192),
    "decode": lambda o, _: LlamaLike(o, layers=24, width=1024, graph=True),
    "urgent": lambda o, _: resnet50(o, 32),
    "train": lambda o, _: resnet50(o, 32, train=True),
    "loader": lambda o, _: Loader(o),
    "freer": lambda o, _: Freer(o),
    "copier": lambda o, _: Copier(o),
    "weights_2g": lambda o, _: Weights(o),
}


class Torch(Job):
    """A job on a thread and, unless it is alone, on a stream of its own."""

    def __init__(self, options, name):
        kind, _, size = name.partition(":")
        if kind not in WORKS or size and not (kind.startswith("gemm_") and size.isdigit()):
            raise Refused(f"there is no job {name}")
        self.options, self.kind, self.size = options, kind, size
        self.gpu = options.device == "cuda"
        self.work, self.stream, self.events = None, None, []

    def enter(self, alone=False):
        if self.gpu:
            if not torch.cuda.is_available():
                raise Refused("PyTorch sees no CUDA device")
            torch.cuda.init()
            self.stream = torch.cuda.current_stream() if alone else torch.cuda.Stream()
            torch.cuda.set_stream(self.stream)

    def prepare(self):
        self.work = WORKS[self.kind](self.options, self.size)

    def step(self):
        self.work()

    def mark(self):
        if not self.gpu:
            return None
        event = self.events.pop() if self.events else torch.cuda.Event()
        event.record(self.stream)
        return event

    def reach(self, mark):
        if mark:
            mark.synchronize()
            self.events.append(mark)

    def sync(self):
        if self.gpu:
            self.stream.synchronize()

    def digest(self):
        return torch_work.digest(self.work)

    def drop(self):
        if self.stream:
            self.stream.synchronize()
        if self.work:
            self.work.close()
        self.work, self.events = None, []
        if self.gpu:
            # What hangs in a circle of references holds device memory, too.
            gc.collect()
            torch.cuda.empty_cache()


def facts(options):
    """Versions, and the device as PyTorch sees it."""
    told = {"server": "torch", "torch": torch.__version__, "cuda": torch.version.cuda,
            "device": options.device}
    if options.device == "cuda" and torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        told |= {"device": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version(),
                 "capability": list(torch.cuda.get_device_capability()), "free": free, "total": total,
                 "allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()}
    return told
