"""torch.cuda as people call it: devices, memory, copies, streams, events, graphs, and what is refused."""

import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from compare import Different, worst

MIB = 1 << 20


def check(held, what):
    """Says what does not hold."""
    if not held:
        raise Different(what)


def raised(call, kind, words):
    """Whether a call is refused by an error of a kind that has these words."""
    try:
        call()
    except kind as error:
        check(words in str(error), f"the error does not say {words!r}: {error}")
    else:
        raise Different(f"it was not refused with {words!r}")


def _curve(x, y):
    return torch.sin(x) * y + x


CURVE = torch.compile(_curve)


def curve(count=4096):
    """Two inputs on the host, and what is to become of them."""
    x, y = torch.randn(count), torch.randn(count)
    return x, y, _curve(x, y)


def devices():
    """Which devices there are, and what they say of themselves."""
    cuda = torch.cuda
    check(cuda.is_available() and cuda.device_count() == 1, "there is not one device")
    told = cuda.get_device_properties(0)
    check(told.name == cuda.get_device_name() and told.name, "it has no name")
    check((told.major, told.minor) == cuda.get_device_capability() >= (8, 0), "its capability")
    check(told.multi_processor_count > 0 and told.warp_size == 32, "its multiprocessors")
    check(told.total_memory >= 512 * MIB, "its memory")
    cuda.set_device(0)
    check(cuda.current_device() == 0 and str(torch.empty(1, device="cuda").device) == "cuda:0", "the current one")
    with cuda.device(0):
        check(torch.empty(1, device="cuda").is_cuda, "the chosen one")
    raised(lambda: cuda.set_device(3), RuntimeError, "invalid device ordinal")
    check("sm_80" in cuda.get_arch_list() and cuda.is_initialized(), "what torch was built for")


def memory():
    """What torch says it holds is what it was asked for, and goes back."""
    cuda = torch.cuda
    cuda.empty_cache()
    before, (free, total) = cuda.memory_allocated(), cuda.mem_get_info()
    check(0 < free <= total == cuda.get_device_properties(0).total_memory, f"{free} of {total} bytes are free")
    cuda.reset_peak_memory_stats()
    held = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    check(cuda.memory_allocated() - before == 64 * MIB, "what is allocated")
    check(cuda.memory_reserved() >= cuda.memory_allocated(), "what is reserved")
    check(free - cuda.mem_get_info()[0] >= 64 * MIB, "what is free no more")
    stats = cuda.memory_stats()
    check(stats["allocated_bytes.all.current"] == cuda.memory_allocated() and stats["num_ooms"] >= 0, "statistics")
    del held
    check(cuda.memory_allocated() == before and cuda.max_memory_allocated() >= before + 64 * MIB, "what it was")
    cuda.empty_cache()
    check(cuda.mem_get_info()[0] >= free and "Allocated memory" in cuda.memory_summary(), "what is free again")


def out_of_memory():
    """More than there is is refused as on a GPU, and the program goes on."""
    x, y, want = curve()
    raised(lambda: torch.empty(1 << 42, dtype=torch.uint8, device="cuda"), torch.OutOfMemoryError, "out of memory")
    held = []

    def fill():
        while True:
            held.append(torch.empty(256 * MIB, dtype=torch.uint8, device="cuda"))

    raised(fill, torch.OutOfMemoryError, "out of memory")
    check(sum(it.numel() for it in held) <= torch.cuda.get_device_properties(0).total_memory, "more than there is")
    held.clear()
    torch.cuda.empty_cache()
    return worst(CURVE(x.to("cuda"), y.to("cuda")), want)


def copies():
    """Copies there, on the device and back, of every type, from pinned memory or not."""
    kinds = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
             torch.int8, torch.uint8, torch.bool, torch.complex64]
    for kind in kinds:
        here = (torch.randn(33, 65) * 50).to(kind)
        there = here.to("cuda")
        check(torch.equal(there.cpu(), here) and torch.equal(there.clone().cpu(), here), f"copies of {kind}")
        check(torch.equal(there[7:9].cpu(), here[7:9]) and torch.equal(there.T.cpu(), here.T), f"views of {kind}")
    here = torch.arange(1000.0)
    there = torch.zeros(1000, device="cuda")
    check(not there.cpu().any(), "zeros, which take no kernel")
    there[100:200].copy_(here[:100])
    there[200:300] = there[100:200]
    check(torch.equal(there[200:300].cpu(), here[:100]) and there[105].item() == 5.0, "parts")


def pinned():
    """Pinned memory and copies that nobody waits for, both ways."""
    here = torch.randn(MIB).pin_memory()
    back = torch.empty(MIB, pin_memory=True)
    check(here.is_pinned() and back.is_pinned() and not torch.randn(3).is_pinned(), "what is pinned")
    want = _curve(here, here)
    there = here.to("cuda", non_blocking=True)
    back.copy_(CURVE(there, there), non_blocking=True)
    torch.cuda.synchronize()
    check(torch.equal(there.cpu(), here), "the way there")
    return worst(back.to("cuda"), want)


def loader():
    """A data loader that pins its batches, and a file that is loaded onto the device."""
    data = torch.utils.data.TensorDataset(torch.arange(64.0).reshape(16, 4))
    batches = [it.to("cuda", non_blocking=True) for (it,) in
               torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)]
    check(torch.equal(torch.cat([it.cpu() for it in batches]), data.tensors[0]), "batches")
    import io
    file = io.BytesIO()
    torch.save({"weight": batches[0]}, file)
    file.seek(0)
    check(torch.equal(torch.load(file, map_location="cuda")["weight"].cpu(), data.tensors[0][:4]), "a file")


def streams():
    """Two streams that wait for each other."""
    x, y, want = curve()
    first, second = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    check(first != torch.cuda.default_stream() and torch.cuda.current_stream() == torch.cuda.default_stream(), "which")
    with torch.cuda.stream(first):
        check(torch.cuda.current_stream() == first, "the current one")
        a, b = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        done = first.record_event()
    second.wait_event(done)
    with torch.cuda.stream(second):
        result = CURVE(a, b)
        a.record_stream(second)
    torch.cuda.current_stream().wait_stream(second)
    second.synchronize()
    check(second.query() and first.query(), "what is done")
    return worst(result, want)


def events():
    """Events measure time, and are there to be asked and waited for."""
    x, y, want = curve()
    a, b = x.to("cuda"), y.to("cuda")
    CURVE(a, b)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(20):
        result = CURVE(a, b)
    end.record()
    end.synchronize()
    check(end.query() and 0 < begin.elapsed_time(end) < 60_000, "the time between")
    return worst(result, want)


def graph():
    """A graph of compiled functions, captured once, replayed with other inputs."""
    x, y, _ = curve()
    a, b = x.to("cuda"), y.to("cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        CURVE(CURVE(a, b), b)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        result = CURVE(CURVE(a, b), b)
    found = []
    for _ in range(3):
        x, y, _ = curve()
        a.copy_(x)
        b.copy_(y)
        captured.replay()
        found.append(worst(result, _curve(_curve(x, y), y)))
    captured.reset()
    return max(found)


def reduce_overhead():
    """mode="reduce-overhead": torch captures and replays graphs by itself, of a function and its gradients."""
    torch._dynamo.config.trace_autograd_ops = True

    def whole(x, weight, direction):
        y = torch.tanh(x @ weight)
        return y.detach(), torch.autograd.grad(y, weight, direction)[0]

    shapes, found = [(16, 64), (64, 32), (16, 32)], []
    compiled = torch.compile(whole, mode="reduce-overhead")
    # Inputs that lie at other addresses from call to call torch copies by a kernel of its own.
    there = [torch.empty(shape, device="cuda") for shape in shapes]
    for it in there:
        torch._dynamo.mark_static_address(it)
    there[1].requires_grad_()
    counters["inductor"]["cudagraph_skips"] = 0
    for _ in range(5):
        here = [torch.randn(shape) for shape in shapes]
        with torch.no_grad():
            for to, it in zip(there, here):
                to.copy_(it)
        here[1].requires_grad_()
        torch.compiler.cudagraph_mark_step_begin()
        found.append(worst(compiled(*there), whole(*here)))
    check(not counters["inductor"]["cudagraph_skips"], "torch made no graph of it")
    return max(found)


def seeds():
    """Seeds and the state of the generator, which no kernel takes part in."""
    torch.cuda.manual_seed(42)
    check(torch.cuda.initial_seed() == 42, "the seed")
    state = torch.cuda.get_rng_state()
    torch.cuda.manual_seed_all(43)
    check(not torch.equal(torch.cuda.get_rng_state(), state), "another seed")
    torch.cuda.set_rng_state(state)
    check(torch.cuda.initial_seed() == 42, "the state of before")
    check(torch.Generator("cuda").manual_seed(5).initial_seed() == 5, "a generator of one's own")


#: What people write first, each a kernel of torch's own.
EAGER = {
    "x + 1": lambda x: x + 1,
    "ones": lambda x: torch.ones(3, device="cuda"),
    "full": lambda x: torch.full((3,), 2.0, device="cuda"),
    "arange": lambda x: torch.arange(5, device="cuda"),
    "fill_": lambda x: x.clone().fill_(2.0),
    "sum": lambda x: x.sum(),
    "softmax": lambda x: F.softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, (16,)),
    "contiguous": lambda x: x.T.contiguous(),
    "float to double": lambda x: x.double(),
    "index": lambda x: x[torch.tensor([2, 1]).to("cuda")],
    "masked": lambda x: x[(x.cpu() > 0).to("cuda")],
    "sort": lambda x: x.sort(1).values,
    "cumsum": lambda x: x.cumsum(1),
    "relu_": lambda x: x.clone().relu_(),
    "random": lambda x: torch.randn(3, device="cuda"),
    "dropout": lambda x: F.dropout(x, 0.5),
    "str": lambda x: str(x),
}


def refused():
    """Every eager operation is refused in torch's words; what is compiled is right before and behind."""
    x = torch.randn(16, 16)
    there = x.to("cuda")
    a, b, want = curve()
    found = []
    for name, compute in EAGER.items():
        def call(compute=compute):
            compute(there)
            torch.cuda.synchronize()
        try:
            raised(call, torch.AcceleratorError, "no kernel image is available for execution on the device")
        except Different as different:
            raise Different(f"{name}: {different}") from None
        found.append(worst(CURVE(a.to("cuda"), b.to("cuda")), want))
        check(torch.equal(there.cpu(), x), f"{name} changed its input")
    return max(found)


def libraries():
    """Products and convolutions of NVIDIA's libraries are refused, or right: some of them have PTX."""
    x, image, weight = torch.randn(32, 32), torch.randn(1, 8, 12, 12), torch.randn(8, 8, 3, 3)
    calls = {
        "matmul": (lambda x: x @ x, x), "bmm": (lambda x: torch.bmm(x[None], x[None]), x),
        "linear": (lambda x: F.linear(x, x), x), "conv2d": (lambda it, w: F.conv2d(it, w), image, weight),
    }
    found, ran = [0.0], []
    for name, (compute, *inputs) in calls.items():
        try:
            got = compute(*(it.to("cuda") for it in inputs)).cpu().to("cuda")
        except RuntimeError as error:
            words = ("no kernel image", "NOT_SUPPORTED", "ARCH_MISMATCH", "cudnn", "cuDNN", "EXECUTION_FAILED")
            check(any(it in str(error) for it in words), f"{name}: {error}")
        else:
            ran.append(name)
            found.append(worst(got, compute(*inputs)))
    print(f"ran from PTX: {ran}", file=sys.stderr)
    return max(found)


def told():
    """A refusal is told once on stderr, in a line that names the library, what it has, and the remedy."""
    program = ("import torch\n"
               "for _ in range(3):\n"
               "    try: torch.ones(3, device='cuda') + 1\n"
               "    except torch.AcceleratorError as error: said = str(error)\n"
               "assert 'no kernel image is available for execution on the device' in said, said\n")
    environment = {name: it for name, it in os.environ.items() if name != "WARPLOOM_STATS"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    check(ran.returncode == 0, ran.stderr)
    lines = [it for it in ran.stderr.splitlines() if it.startswith("warploom: ")]
    check(len(lines) == 1, f"{len(lines)} lines: {lines}")
    for word in ("libtorch_cuda.so", "sm_80", "sm_90", "PTX", "GPU"):
        check(word in lines[0], f"it does not say {word}: {lines[0]}")


def collectives():
    """NCCL fails where it looks for the GPU among the host's PCI devices. Its kernels are machine code, too."""
    from torch import distributed
    with tempfile.TemporaryDirectory() as folder:
        def call():
            distributed.init_process_group("nccl", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        raised(call, RuntimeError, "Attribute class of node gpu not found")
    x = torch.randn(16)
    check(torch.equal(x.to("cuda").cpu(), x), "the device is lost")


CASES = {it.__name__.replace("_", " "): it for it in (
    devices, memory, out_of_memory, copies, pinned, loader, streams, events, graph, reduce_overhead, seeds,
    refused, libraries, told, collectives)}
