#!/usr/bin/env python3
"""A perceptron of MNIST's size learns synthetic digits on tinygrad; the losses are checked.

  DEV=CUDA:PTX mlp.py [--steps 30]      prints one JSON object: device, steps, losses, the difference

784 inputs, 128 hidden units, ten classes; images, labels and weights come from a seed. The same
training in NumPy, in 64 bits, says what the losses are; the program fails where they differ.
"""

import argparse
import json
import sys
import time

import numpy as np
from tinygrad import Context, Device, Tensor, TinyJit, nn

INPUTS, HIDDEN, CLASSES, BATCH, IMAGES = 784, 128, 10, 64, 512
RATE = 0.1
TOLERANCE = 1e-3


def digits(numbers):
    """Images of ten kinds, each a pattern of its own in noise, and their kinds."""
    patterns = numbers.standard_normal((CLASSES, INPUTS))
    labels = numbers.integers(0, CLASSES, IMAGES)
    images = 0.3 * patterns[labels] + numbers.standard_normal((IMAGES, INPUTS))
    return images.astype(np.float32), labels.astype(np.int32)


def weights(numbers):
    shapes = (HIDDEN, INPUTS), (HIDDEN,), (CLASSES, HIDDEN), (CLASSES,)
    return [(0.03 * numbers.standard_normal(shape)).astype(np.float32) for shape in shapes]


def batches(steps):
    for step in range(steps):
        begin = step * BATCH % IMAGES
        yield slice(begin, begin + BATCH)


class Perceptron:
    def __init__(self, initial):
        self.first, self.second = nn.Linear(INPUTS, HIDDEN), nn.Linear(HIDDEN, CLASSES)
        self.weights = [self.first.weight, self.first.bias, self.second.weight, self.second.bias]
        for tensor, values in zip(self.weights, initial):
            tensor.assign(Tensor(values)).realize()

    def __call__(self, images):
        return self.second(self.first(images).relu())


def learned(images, labels, initial, steps):
    """The losses on the device, step by step, each brought back before the next step."""
    model = Perceptron(initial)
    descent = nn.optim.SGD(model.weights, lr=RATE)

    @TinyJit
    def step(seen, kinds):
        with Context(TRAINING=1):
            descent.zero_grad()
            loss = model(seen).sparse_categorical_crossentropy(kinds)
            loss.backward()
            # Together, or the loss would be that of the weights as they are afterwards.
            return loss.realize(*descent.schedule_step())

    for batch in batches(steps):
        yield step(Tensor(images[batch]).realize(), Tensor(labels[batch]).realize()).item()


def reference(images, labels, initial, steps):
    """The same training, written out."""
    w1, b1, w2, b2 = (each.astype(np.float64) for each in initial)
    for batch in batches(steps):
        x, kinds = images[batch].astype(np.float64), labels[batch]
        hidden = np.maximum(x @ w1.T + b1, 0)
        scores = hidden @ w2.T + b2
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        likely = shifted / shifted.sum(axis=1, keepdims=True)
        rows = np.arange(BATCH)
        yield -np.log(likely[rows, kinds]).mean()
        wrong = likely
        wrong[rows, kinds] -= 1
        wrong /= BATCH
        back = (wrong @ w2) * (hidden > 0)
        w2, b2 = w2 - RATE * wrong.T @ hidden, b2 - RATE * wrong.sum(axis=0)
        w1, b1 = w1 - RATE * back.T @ x, b1 - RATE * back.sum(axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    steps = parser.parse_args().steps
    numbers = np.random.default_rng(3)
    (images, labels), initial = digits(numbers), weights(numbers)
    began = time.monotonic()
    losses = list(learned(images, labels, initial, steps))
    seconds = time.monotonic() - began
    expected = list(reference(images, labels, initial, steps))
    difference = max(abs(ours - theirs) for ours, theirs in zip(losses, expected))
    print(json.dumps({"device": Device.DEFAULT, "steps": steps, "seconds": round(seconds, 2),
                      "first_loss": losses[0], "last_loss": losses[-1], "difference": difference}))
    if not difference <= TOLERANCE:
        sys.exit(f"the losses differ by {difference}: {losses} instead of {expected}")
    if steps >= 20 and not losses[-1] < 0.7 * losses[0]:
        sys.exit(f"it does not learn: {losses}")


if __name__ == "__main__":
    main()
