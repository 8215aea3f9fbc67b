"""The same computation by torch on the CPU, as it comes, and by torch.compile on the device."""

import copy
import functools

import torch
import torch.nn.functional as F

#: Largest difference that is allowed: of any element from the CPU's, relative to the largest of its tensor.
WITHIN = 1e-4
#: What is smaller than that part of the largest element of all results is nothing but their rounding.
NOISE = 1e-6


class Different(Exception):
    """A result that is not the CPU's."""


def difference(got, want):
    """The largest difference of two tensors, relative to the largest element of the one that is wanted."""
    if got.device.type != "cuda":
        raise Different(f"the result lies on {got.device}")
    got, want = got.detach().cpu(), want.detach()
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        raise Different(f"{got.dtype} {tuple(got.shape)} for {want.dtype} {tuple(want.shape)}")
    if not want.is_floating_point():
        wrong = int((got != want).sum())
        if wrong:
            raise Different(f"{wrong} of {want.numel()} whole numbers differ")
        return 0.0
    got, want = got.double(), want.double()
    if not torch.isfinite(want).all():
        raise Different("the CPU's own result is not finite: the case says nothing")
    largest = want.abs().max()
    # A tensor of zeros has to be zeros.
    return float((got - want).abs().max() / (largest if largest else 1.0))


def worst(gots, wants):
    """The largest difference of lists of tensors, none of which may be more than allowed."""
    gots, wants = _flat(gots), _flat(wants)
    if len(gots) != len(wants) or not wants:
        raise Different(f"{len(gots)} results for {len(wants)}")
    noise = NOISE * max(_largest(it) for it in wants)
    found = []
    for got, want in zip(gots, wants):
        # As the gradient of what a keys' bias adds to an attention, which softmax takes away again.
        if want.is_floating_point() and 0 < _largest(want) < noise and _largest(got) < noise:
            continue
        found.append(difference(got, want))
    for at, each in enumerate(found):
        # Not a number is not within anything.
        if not each <= WITHIN:
            raise Different(f"result {at} differs by {each:.1e}, all: {[f'{it:.1e}' for it in found]}")
    return max(found)


def _largest(tensor):
    return float(tensor.detach().cpu().double().abs().max())


def _flat(results):
    if isinstance(results, torch.Tensor):
        return [results]
    return [it for result in results if result is not None for it in _flat(result)]


def on_device(tensors):
    """Copies of tensors on the device: a copy needs no kernel of torch's own."""
    return [it.detach().clone().to("cuda").requires_grad_(it.requires_grad) for it in tensors]


def function(compute, inputs):
    """What a function computes, and the gradients of all its inputs that have some."""
    inputs = [it.requires_grad_(it.is_floating_point()) for it in inputs]
    shape = compute(*inputs)
    directions = [torch.randn(it.shape) for it in _flat(shape) if it.requires_grad]

    def whole(inputs, directions):
        results = _flat(compute(*inputs))
        into = [it for it in inputs if it.requires_grad]
        outof = [it for it in results if it.requires_grad]
        grads = torch.autograd.grad(outof, into, directions) if outof else ()
        # A copy to the host of what has gaps between its elements takes a kernel of torch's own.
        return [it.detach().contiguous() for it in (*results, *grads)]

    # The whole is compiled, gradients included: what torch does between two compiled functions are
    # kernels of its own.
    torch._dynamo.config.trace_autograd_ops = True
    compiled = torch.compile(whole, fullgraph=True)
    return worst(compiled(on_device(inputs), on_device(directions)), whole(inputs, directions))


def zeroed(optimizer, device):
    """Gives AdamW its first state, as copies: torch would fill it by a kernel of its own."""
    for group in optimizer.param_groups:
        for it in group["params"]:
            zero = torch.zeros(it.shape)
            optimizer.state[it] = {"step": torch.zeros(()).to(device), "exp_avg": zero.to(device),
                                   "exp_avg_sq": zero.to(device)}


def as_products(model):
    """Makes the convolutions of a model products of matrices, whose gradients are compiled as well: those
    of a convolution torch leaves to cuDNN."""
    for it in model.modules():
        if isinstance(it, torch.nn.Conv2d):
            it.forward = functools.partial(_product, it)
    return model


def _product(conv, image):
    columns = F.unfold(image, conv.kernel_size, conv.dilation, conv.padding, conv.stride)
    size = [(image.shape[2 + at] + 2 * conv.padding[at] - conv.dilation[at] * (conv.kernel_size[at] - 1) - 1)
            // conv.stride[at] + 1 for at in (0, 1)]
    product = conv.weight.flatten(1) @ columns
    if conv.bias is not None:
        product = product + conv.bias[:, None]
    return product.unflatten(2, size)


class Training:
    """A model and its optimizer on a device; on the GPU every step is compiled, on the CPU none is."""

    def __init__(self, model, kind, device, rate):
        self.model = model.to(device)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=rate, capturable=device == "cuda")
        # Where the gradients begin: without it torch makes one, by a kernel of its own.
        self.one = torch.ones(()).to(device)
        self.loss, self.update = self._loss(kind), self.optimizer.step
        if device == "cuda":
            zeroed(self.optimizer, device)
            self.loss, self.update = torch.compile(self.loss), torch.compile(self.update)

    def _loss(self, kind):
        return lambda *batch: kind.loss(kind.output(self.model, *batch), *batch)

    def gradients(self, batch):
        """The loss, and every parameter's gradient."""
        loss = self.loss(*batch)
        loss.backward(self.one)
        return [loss.detach(), *(it.grad for it in self.model.parameters())]

    def step(self, batch):
        """One step of training; its loss."""
        loss = self.gradients(batch)[0]
        self.update()
        self.optimizer.zero_grad()
        return loss


def _trainings(model, kind, batch, rate):
    here = Training(copy.deepcopy(model), kind, "cpu", rate)
    there = Training(as_products(model), kind, "cuda", rate)
    return here, batch, there, [it.to("cuda") for it in batch]


def gradients(model, kind, batch, rate=1e-3):
    """The loss of a model, and the gradients of all its parameters."""
    here, batch, there, moved = _trainings(model, kind, batch, rate)
    return worst(there.gradients(moved), here.gradients(batch))


def losses(model, kind, batch, rate=1e-3, steps=10):
    """The losses of ten steps of training with AdamW, as one tensor."""
    here, batch, there, moved = _trainings(model, kind, batch, rate)
    wants = torch.stack([here.step(batch) for _ in range(steps)])
    if not wants[-1] < wants[0]:
        raise Different("it does not learn on the CPU: the case says nothing")
    gots = torch.stack([there.step(moved).cpu() for _ in range(steps)])
    return worst(gots.to("cuda"), wants)
