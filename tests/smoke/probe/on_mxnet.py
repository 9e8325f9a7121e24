"""The smoke steps of MXNet, whose images are for CPUs alone."""

import os
import tempfile

import mxnet as mx
from mxnet import autograd, gluon, nd

from common import Absent, noise, packages

VERSION = mx.__version__


def device_name(device):
    return "none that these steps use"


def context(device):
    if device != "cpu":
        raise Absent("the images of MXNet are for CPUs")
    return mx.cpu()


def toolkit(device):
    context(device)
    features = mx.runtime.Features()
    return {
        "sum": float(nd.arange(1000).sum().asscalar()),
        "threads": os.cpu_count(),
        "onednn": features.is_enabled("MKLDNN") or features.is_enabled("ONEDNN"),
    }


def libraries(device):
    return {"packages": packages(), "imported": {"mxnet": mx.__version__}}


def precision(device):
    """The largest error of a product of matrices beside NumPy's in double precision."""
    size = 192
    plain = nd.array(noise(2 * size * size), context(device)).reshape((2, size, size))
    got = nd.dot(plain[0], plain[1])
    first, second = plain.asnumpy().astype("float64")
    return {"fp32": relative(got.asnumpy(), first @ second), "fp32_type": str(got.dtype.__name__)}


def relative(got, wanted):
    """The largest difference, as a part of the largest value."""
    return float(abs(got - wanted).max() / abs(wanted).max())


def convolution(device):
    """A convolution and its gradients beside the sum that defines it."""
    image = nd.array(noise(2 * 3 * 12 * 12), context(device)).reshape((2, 3, 12, 12))
    kernel = nd.array(noise(4 * 3 * 3 * 3, seed=2), context(device)).reshape((4, 3, 3, 3))

    def by_library(x, w):
        return nd.Convolution(x, w, kernel=(3, 3), pad=(1, 1), num_filter=4, no_bias=True)

    def by_definition(x, w):
        padded = nd.pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1))
        total = 0
        for dy in range(3):
            for dx in range(3):
                part = padded[:, :, dy : dy + 12, dx : dx + 12].transpose((0, 2, 3, 1))
                total = total + nd.dot(part, w[:, :, dy, dx].transpose((1, 0)))
        return total.transpose((0, 3, 1, 2))

    got = with_gradients(by_library, image, kernel)
    wanted = with_gradients(by_definition, image, kernel)
    errors = [relative(one, other) for one, other in zip(got, wanted)]
    return dict(zip(("output", "image_gradient", "kernel_gradient"), errors))


def with_gradients(function, *given):
    """The result of a function, and the gradients of its squares' sum by each argument."""
    given = [one.copy() for one in given]
    for one in given:
        one.attach_grad()
    with autograd.record():
        result = function(*given)
        total = result.square().sum()
    total.backward()
    return [part.asnumpy() for part in (result, *(one.grad for one in given))]


def sums(device):
    """A key-value store over two parts of the CPU."""
    store = mx.kv.create("local")
    store.init(3, nd.zeros((1000,)))
    store.push(3, [nd.ones((1000,), mx.cpu(0)), nd.ones((1000,), mx.cpu(1)) * 2])
    parts = [nd.zeros((1000,), mx.cpu(at)) for at in range(2)]
    store.pull(3, out=parts)
    return {"ranks": 2, "backend": "local", "sums": [float(part.asnumpy().mean()) for part in parts]}


def graph(device):
    """A hybridized block, forwards and backwards, beside the same called line by line."""
    block = net()
    x = nd.array(noise(8 * 8, seed=5), context(device)).reshape((8, 8))
    wanted = with_gradients(block, x)
    block.hybridize(static_alloc=True)
    got = with_gradients(block, x)
    again = with_gradients(block, x)
    return {
        "output": relative(got[0], wanted[0]),
        "gradient": relative(got[1], wanted[1]),
        "again": relative(again[0], wanted[0]),
        "graphs": int(block._cached_graph != ()),
    }


def net():
    block = gluon.nn.HybridSequential()
    block.add(gluon.nn.Dense(32, activation="relu", in_units=8), gluon.nn.Dense(3, in_units=32))
    mx.random.seed(6)
    block.initialize(mx.init.Xavier())
    return block


def task():
    """64 points of three classes that a small net can tell apart."""
    points = nd.array(noise(64 * 8)).reshape((64, 8))
    return points, points[:, :3].argmax(axis=1)


def trained(steps):
    """(net, its trainer, the losses of its steps)."""
    model = net()
    trainer = gluon.Trainer(model.collect_params(), "adam", {"learning_rate": 0.02})
    points, classes = task()
    measure = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(steps):
        with autograd.record():
            loss = measure(model(points), classes)
        loss.backward()
        trainer.step(len(points))
        losses.append(float(loss.mean().asscalar()))
    return model, trainer, losses


def step(device):
    context(device)
    _, _, losses = trained(60)
    return {"steps": len(losses), "first_loss": losses[0], "last_loss": losses[-1]}


def checkpoint(device):
    """Parameters and the optimizer's states, saved, read into a new net, and compared bit for bit."""
    context(device)
    model, trainer, _ = trained(5)
    other, second, _ = trained(1)
    with tempfile.TemporaryDirectory() as folder:
        parameters, states = os.path.join(folder, "net.params"), os.path.join(folder, "trainer.states")
        model.save_parameters(parameters)
        trainer.save_states(states)
        other.load_parameters(parameters)
        second.load_states(states)
        again = os.path.join(folder, "again.states")
        second.save_states(again)
        size = os.path.getsize(parameters)
        with open(states, "rb") as one, open(again, "rb") as two:
            moments_equal = one.read() == two.read()
    mine, its = model.collect_params().values(), other.collect_params().values()
    pairs = [(one.data().asnumpy(), two.data().asnumpy()) for one, two in zip(mine, its)]
    points, _ = task()
    return {
        "bytes": size,
        "tensors": len(pairs),
        "different": sum(one.tobytes() != two.tobytes() for one, two in pairs) + int(not moments_equal),
        "answers_equal": bool((model(points).asnumpy() == other(points).asnumpy()).all()),
    }


class Numbers(gluon.data.Dataset):
    """Item i is i, and the process that read it."""

    def __len__(self):
        return 96

    def __getitem__(self, at):
        return nd.full((256,), at), os.getpid()


def loader(device):
    """Two workers, batches in shared memory, in order."""
    context(device)
    seen, workers = [], set()
    for values, pids in gluon.data.DataLoader(Numbers(), batch_size=8, num_workers=2):
        seen += values.asnumpy()[:, -1].astype(int).tolist()
        workers |= set(pids.asnumpy().tolist())
    return {"samples": len(seen), "in_order": seen == list(range(96)), "workers": len(workers - {os.getpid()})}


def serving(device):
    """A net, exported and imported again: the same answers, each time."""
    model, _, _ = trained(5)
    points, _ = task()
    wanted = model(points).asnumpy()
    with tempfile.TemporaryDirectory() as folder:
        model.hybridize()
        model(points)
        model.export(os.path.join(folder, "model"))
        served = gluon.SymbolBlock.imports(
            os.path.join(folder, "model-symbol.json"),
            ["data"],
            os.path.join(folder, "model-0000.params"),
            ctx=context(device),
        )
    answers = [served(points).asnumpy() for _ in range(3)]
    return {"answers": len(answers), "difference": max(relative(answer, wanted) for answer in answers)}


STEPS = {
    "device.toolkit": toolkit,
    "libraries.locked": libraries,
    "numerics.precision": precision,
    "numerics.convolution": convolution,
    "collectives.sums": sums,
    "compiling.graph": graph,
    "training.step": step,
    "training.checkpoint": checkpoint,
    "training.loader": loader,
    "serving.equal": serving,
}
