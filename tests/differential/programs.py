"""Small programs that exercise what a recording can hold; each is called once under the profiler."""

from __future__ import annotations

import functools
import shutil
import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.autograd.profiler import record_function
from torch.utils.data import DataLoader, TensorDataset


def _train(model: nn.Module, batch: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()


def mlp() -> None:
    """A perceptron, trained by SGD."""
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        _train(model, torch.randn(8, 16), optimizer)


def conv_net() -> None:
    """Convolutions, normalisation and pooling."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(5))
    model(torch.randn(2, 3, 12, 12))
    _train(model, torch.randn(2, 3, 12, 12), torch.optim.Adam(model.parameters(), foreach=True))


def transformer() -> None:
    """Attention, layer norm and a fused optimizer."""
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    for _ in range(2):
        _train(model, torch.randn(2, 6, 16), torch.optim.AdamW(model.parameters(), fused=True))
    model.eval()
    with torch.no_grad():
        model(torch.randn(2, 6, 16))


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def,override]
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def,override]
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2


def custom_function() -> None:
    """An autograd function written in Python, nested in annotations of one name."""
    with record_function("outer"), record_function("outer"), record_function("inner"):
        x = torch.randn(5, requires_grad=True)
        _Cube.apply(_Cube.apply(x)).sum().backward()


def annotations() -> None:
    """Annotations that nest, repeat, hold nothing, and carry hostile names."""
    for name in ("plain", "plain", 'with "quotes"', "back\\slash", "naïve ☃", "a.b.c", "ProfilerStep#7", "<b>&amp;</b>"):
        with record_function(name):
            torch.ones(2).add(1)
        with record_function(name), record_function("empty"):
            pass
    with record_function("with args", "1, 2"):
        torch.zeros(3)


def workers() -> None:
    """A loader with worker processes."""
    data = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    for batch, _ in DataLoader(data, batch_size=2, num_workers=2):
        batch.sum()


def threads() -> None:
    """Operators and annotations on several threads at once, some started before."""

    def work() -> None:
        with record_function("thread's own"):
            torch.randn(8, 8).mm(torch.randn(8, 8)).relu().sum()

    running = [threading.Thread(target=work) for _ in range(3)]
    for thread in running:
        thread.start()
    work()
    for thread in running:
        thread.join()


def threads_before() -> None:
    """A thread that was there before the recording: Kineto cannot name it on Python rows."""
    _wake.set()
    _done.wait(20)
    _done.clear()
    torch.ones(2).add(1)


_wake, _done = threading.Event(), threading.Event()


def _in_background() -> None:
    while True:
        _wake.wait()
        _wake.clear()
        torch.ones(3).cos()
        _done.set()


threading.Thread(target=_in_background, daemon=True).start()


def futures() -> None:
    """Annotations that end when a future does, on another thread."""

    def later() -> int:
        torch.ones(4).mul(2)
        return 1

    future = torch.jit.fork(lambda: torch.ones(3) + 1)
    with record_function("asynchronous") as annotation:
        annotation._call_end_callbacks_on_future(future)  # type: ignore[arg-type]
    torch.jit.wait(future)
    assert later() == 1


@torch.jit.script
def _scripted(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = torch.relu(x + 1) @ x
    return x


def script() -> None:
    """TorchScript."""
    _scripted(torch.randn(4, 4))


@functools.cache
def _compiled() -> Callable[[torch.Tensor], torch.Tensor]:
    return torch.compile(lambda x: (x.sin() * 2 + x).relu().sum(0))


def compiled() -> None:
    """A region that inductor compiled: its own kernel, and the frames around it."""
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("there is no C++ compiler for torch.compile")
    _compiled()(torch.randn(8, 8))


def in_place_and_views() -> None:
    """Views, in-place operators, scalars, lists of tensors, tensors that outlive and that do not."""
    kept = torch.zeros(4, 4)
    kept[1:3].add_(1).mul_(0.5)
    kept.t().reshape(2, 8)[:, 0].fill_(float("nan"))
    torch.cat([kept, kept.clone()], dim=1).split(2)
    torch.stack([torch.randn(3), torch.randn(3)]).sum(0, keepdim=True)
    del kept


def memory_of_before() -> None:
    """A block that was allocated before the recording is freed in it, and one lives on."""
    _held.pop("old", None)
    _held["new"] = torch.empty(1000)


_held: dict[str, torch.Tensor] = {}


def before_memory() -> None:
    """What must be there before :func:`memory_of_before` is recorded."""
    _held["old"] = torch.empty(5000)


PROGRAMS: dict[str, Callable[[], None]] = {
    program.__name__: program
    for program in (mlp, conv_net, transformer, custom_function, annotations, workers, threads,
                    threads_before, futures, script, compiled,
                    in_place_and_views, memory_of_before)
}  # fmt: skip
