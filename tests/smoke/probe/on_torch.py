"""The smoke steps of PyTorch."""

import os
import shutil
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional

from common import Absent, driver_cuda, in_processes, noise, packages, resident

VERSION = torch.__version__
MIB = 1 << 20
PRECISIONS = {
    "fp32": (torch.float32, "highest"),
    "tf32": (torch.float32, "high"),
    "fp16": (torch.float16, "highest"),
    "bf16": (torch.bfloat16, "highest"),
}


def device_name(device):
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none that PyTorch sees"


def toolkit(device):
    facts = {"threads": torch.get_num_threads(), "sum": torch.arange(1000.0, device=device).sum().item()}
    if device == "cpu":
        return {**facts, "onednn": torch.backends.mkldnn.is_available(), "math": torch.backends.mkl.is_available()}
    about = torch.cuda.get_device_properties(0)
    return {
        **facts,
        "gpus": torch.cuda.device_count(),
        "memory_mib": about.total_memory // MIB,
        "capability": f"{about.major}.{about.minor}",
        "compiled_for": torch.cuda.get_arch_list(),
        "cuda": torch.version.cuda,
        "driver_cuda": driver_cuda(),
        "cudnn": torch.backends.cudnn.version(),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
    }


def libraries(device):
    return {"packages": packages(), "imported": {"torch": torch.__version__}}


def memory(device):
    """What is given back is there again: eight blocks, one after the other, take the room of one."""
    size = 128 * MIB
    torch.ones(size // 4, device=device)  # contexts and arenas are made now
    before, free_before = held(device)
    peak = 0
    for _ in range(8):
        block = torch.ones(size // 4, device=device)
        peak = max(peak, held(device)[0] - before)
        del block
    after, free_after = held(device)
    return {
        "block_mib": size // MIB,
        "peak_mib": peak // MIB,
        "missing_mib": (after - before) // MIB,
        "missing_on_device_mib": (free_before - free_after) // MIB,
    }


def held(device):
    """(bytes that this process holds, bytes that are free on the device)."""
    if device == "cpu":
        return resident(), 0
    torch.cuda.synchronize()
    taken = torch.cuda.memory_allocated()
    torch.cuda.empty_cache()
    return taken, torch.cuda.mem_get_info()[0]


def transfer(device):
    """Host to device and back, byte for byte; from pinned memory where there is a GPU."""
    pinned = device == "cuda"
    source = torch.arange(16 * MIB, dtype=torch.int32)
    if pinned:
        source = source.pin_memory()
    back = torch.zeros(16 * MIB, dtype=torch.int32, pin_memory=pinned)
    there = torch.empty(16 * MIB, dtype=torch.int32, device=device)
    seconds = []
    for target, given in ((there, source), (back, there)):
        wait(device)
        started = time.monotonic()
        target.copy_(given, non_blocking=True)
        wait(device)
        seconds.append(max(time.monotonic() - started, 1e-6))
    return {
        "mib": 64,
        "pinned": bool(source.is_pinned() and back.is_pinned()) if pinned else False,
        "to_device_mib_s": round(64 / seconds[0]),
        "to_host_mib_s": round(64 / seconds[1]),
        "different": sum(one != other for one, other in zip(source[::4097].tolist(), back[::4097].tolist()))
        + int(back[-1].item() != 16 * MIB - 1),
    }


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def precision(device):
    """The largest error of a product of matrices beside the CPU's in double precision, element by element."""
    size = 192
    plain = torch.tensor(noise(2 * size * size)).reshape(2, size, size)
    found = {}
    for name, (dtype, allowed) in PRECISIONS.items():
        if name == "tf32" and device == "cpu":
            continue
        torch.set_float32_matmul_precision(allowed)
        first, second = plain.to(dtype)
        got = (first.to(device) @ second.to(device)).cpu()
        first, second = first.double(), second.double()
        wanted = torch.stack([(row[:, None] * second).sum(0) for row in first])
        found[name] = relative(got, wanted)
        found[f"{name}_type"] = str(got.dtype).replace("torch.", "")
    torch.set_float32_matmul_precision("highest")
    return found


def relative(got, wanted):
    """The largest difference, as a part of the largest value."""
    return ((got.double().cpu() - wanted.double().cpu()).abs().max() / wanted.double().abs().max()).item()


def convolution(device):
    """A convolution and its gradients beside the sum that defines it."""
    torch.backends.cudnn.allow_tf32 = False
    image = torch.tensor(noise(2 * 3 * 12 * 12)).reshape(2, 3, 12, 12)
    kernel = torch.tensor(noise(4 * 3 * 3 * 3, seed=2)).reshape(4, 3, 3, 3)

    def by_library(x, w):
        return functional.conv2d(x, w, padding=1)

    def by_definition(x, w):
        padded = functional.pad(x, (1, 1, 1, 1))
        parts = [
            torch.einsum("bchw,oc->bohw", padded[:, :, dy : dy + 12, dx : dx + 12], w[:, :, dy, dx])
            for dy in range(3)
            for dx in range(3)
        ]
        return torch.stack(parts).sum(0)

    got = with_gradients(by_library, image.to(device), kernel.to(device))
    wanted = with_gradients(by_definition, image.double(), kernel.double())
    errors = [relative(one, other) for one, other in zip(got, wanted)]
    return dict(zip(("output", "image_gradient", "kernel_gradient"), errors))


def with_gradients(function, *given):
    """The result of a function, and the gradients of its squares' sum by each argument."""
    given = [one.detach().clone().requires_grad_() for one in given]
    result = function(*given)
    result.square().sum().backward()
    return [result.detach(), *(one.grad for one in given)]


def sums(device):
    """Collectives over all GPUs; over two processes on a CPU."""
    count = torch.cuda.device_count() if device == "cuda" else 2
    with tempfile.TemporaryDirectory() as folder:
        found = in_processes("torch_rank.py", count, device, os.path.join(folder, "meeting"))
    return {
        "ranks": count,
        "backend": found[0]["backend"],
        "sums": [one["sum"] for one in found],
        "gathered": [one["gathered"] for one in found],
        "broadcast": [one["broadcast"] for one in found],
    }


def graph(device):
    """A captured graph, forwards and backwards, beside the same called line by line; needs no compiler."""
    return compiled(device, "aot_eager")


def code(device):
    """The same, compiled: C++ on a CPU, Triton's kernels on a GPU, whose launcher is C."""
    compilers = ("g++", "c++", "clang++") if device == "cpu" else ("gcc", "cc", "clang")
    wanted = [os.environ.get("CXX" if device == "cpu" else "CC", ""), *compilers]
    if not any(shutil.which(name) for name in wanted if name):
        raise Absent("there is no C++ compiler here" if device == "cpu" else "there is no C compiler here")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.environ["TRITON_CACHE_DIR"] = folder
        return compiled(device, "inductor")


def compiled(device, backend):
    torch.manual_seed(3)
    weights = torch.randn(16, 16, device=device), torch.randn(8, 16, device=device)

    def function(x):
        return torch.tanh(functional.gelu(x @ weights[0]) + x.sin()) * weights[1].sum(0)

    x = torch.randn(8, 16, device=device)
    wanted = with_gradients(function, x)
    counted = torch._dynamo.utils.counters["stats"]
    before = counted["unique_graphs"]
    quick = torch.compile(function, backend=backend, fullgraph=True)
    got = with_gradients(quick, x)
    again = with_gradients(quick, x)
    return {
        "backend": backend,
        "output": relative(got[0], wanted[0]),
        "gradient": relative(got[1], wanted[1]),
        "again": relative(again[0], wanted[0]),
        "graphs": counted["unique_graphs"] - before,
    }


def net():
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))


def task(device):
    """64 points of three classes that a small net can tell apart."""
    points = torch.tensor(noise(64 * 8)).reshape(64, 8)
    return points.to(device), (points[:, :3]).argmax(1).to(device)


def trained(device, steps):
    """(net, its optimizer, the losses of its steps)."""
    torch.manual_seed(0)
    model = net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    points, classes = task(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(points), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, optimizer, losses


def step(device):
    _, _, losses = trained(device, 60)
    return {"steps": len(losses), "first_loss": losses[0], "last_loss": losses[-1]}


def checkpoint(device):
    """Saved, read into a new net and optimizer, and compared bit for bit."""
    model, optimizer, _ = trained(device, 5)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        size = os.path.getsize(path)
        saved = torch.load(path, map_location=device, weights_only=True)
    other = net().to(device)
    other.load_state_dict(saved["model"])
    second = torch.optim.Adam(other.parameters(), lr=0.5)
    second.load_state_dict(saved["optimizer"])
    pairs = list(zip(tensors(model, optimizer), tensors(other, second)))
    points, _ = task(device)
    model.train(False)
    other.train(False)
    return {
        "bytes": size,
        "tensors": len(pairs),
        "different": sum(not torch.equal(one.cpu(), two.cpu()) for one, two in pairs),
        "answers_equal": bool((model(points) == other(points)).all().item()),
    }


def tensors(model, optimizer):
    moments = [value for state in optimizer.state_dict()["state"].values() for value in state.values()]
    return [*model.state_dict().values(), *moments]


class Numbers(torch.utils.data.Dataset):
    """Item i is i, and the process that read it."""

    def __len__(self):
        return 96

    def __getitem__(self, at):
        return torch.full((256,), at), os.getpid()


def loader(device):
    """Two workers, batches in shared memory, in order; pinned on the way to a GPU."""
    batches = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=device == "cuda")
    seen, workers = [], set()
    for values, pids in batches:
        seen += values.to(device)[:, -1].tolist()
        workers |= set(pids.tolist())
    return {"samples": len(seen), "in_order": seen == list(range(96)), "workers": len(workers - {os.getpid()})}


def serving(device):
    """A net that was trained on the CPU, saved, and read onto the device: the same answers, each time."""
    model, _, _ = trained("cpu", 5)
    model.eval()
    points, _ = task("cpu")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pth")
        torch.save(model.state_dict(), path)
        served = net().to(device)
        served.load_state_dict(torch.load(path, map_location=device, weights_only=True))
    served.eval()
    with torch.inference_mode():
        wanted = model(points)
        answers = [served(points.to(device)).cpu() for _ in range(3)]
    return {"answers": len(answers), "difference": max(relative(answer, wanted) for answer in answers)}


def pipeline(device):
    """A tiny classifier with random weights, made here: nothing is downloaded."""
    try:
        import transformers
    except ModuleNotFoundError:
        raise Absent("there is no transformers here") from None
    import tiny

    torch.manual_seed(4)
    with tempfile.TemporaryDirectory() as folder:
        config, tokenizer = tiny.write_tokenizer(transformers, folder)
        transformers.BertForSequenceClassification(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        found = []
        for where in ("cpu", device):
            classify = transformers.pipeline("text-classification", model=folder, device=where)
            found.append(classify(tiny.TEXTS))
            at = str(classify.model.device.type)
    return {"transformers": transformers.__version__, "model_on": at, **tiny.compare(*found)}


STEPS = {
    "device.toolkit": toolkit,
    "device.memory": memory,
    "device.transfer": transfer,
    "libraries.locked": libraries,
    "numerics.precision": precision,
    "numerics.convolution": convolution,
    "collectives.sums": sums,
    "compiling.graph": graph,
    "compiling.code": code,
    "training.step": step,
    "training.checkpoint": checkpoint,
    "training.loader": loader,
    "serving.equal": serving,
    "serving.pipeline": pipeline,
}
