"""The smoke steps of TensorFlow."""

import os
import tempfile
import time

import tensorflow as tf

from common import Absent, driver_cuda, noise, packages, resident

VERSION = tf.__version__
MIB = 1 << 20
TYPES = {"fp32": tf.float32, "tf32": tf.float32, "fp16": tf.float16, "bf16": tf.bfloat16}

# What cannot run on the device that was asked for shall fail, not move to another.
tf.config.set_soft_device_placement(False)
GPUS = tf.config.list_physical_devices("GPU")
for gpu in GPUS:
    tf.config.experimental.set_memory_growth(gpu, True)


def place(device):
    return tf.device("/GPU:0" if device == "cuda" else "/CPU:0")


def device_name(device):
    return tf.config.experimental.get_device_details(GPUS[0]).get("device_name", "") if GPUS else "none"


def toolkit(device):
    built = tf.sysconfig.get_build_info()
    with place(device):
        total = float(tf.reduce_sum(tf.range(1000, dtype=tf.float32)))
    if device == "cpu":
        return {"sum": total, "threads": os.cpu_count(), "cuda_build": bool(built.get("is_cuda_build"))}
    capability = tf.config.experimental.get_device_details(GPUS[0]).get("compute_capability", (0, 0))
    return {
        "sum": total,
        "gpus": len(GPUS),
        "capability": ".".join(map(str, capability)),
        "compiled_for": list(built.get("cuda_compute_capabilities", ())),
        "cuda": built.get("cuda_version", ""),
        "driver_cuda": driver_cuda(),
        "cudnn": built.get("cudnn_version", ""),
    }


def libraries(device):
    found = packages()
    name = next((name for name in ("tensorflow", "tensorflow-cpu") if name in found), "tensorflow")
    return {"packages": found, "imported": {name: tf.__version__}}


def memory(device):
    """What is given back is there again: eight blocks, one after the other, take the room of one."""
    size = 128 * MIB
    with place(device):
        float(tf.ones([1024, 1024])[0, 0])
        before = held(device)
        peak = 0
        for at in range(8):
            block = tf.fill([size // 4], float(at))
            float(block[-1])  # wait until it is there
            peak = max(peak, held(device) - before)
            del block
        after = held(device)
    return {
        "block_mib": size // MIB,
        "peak_mib": peak // MIB,
        "missing_mib": (after - before) // MIB,
        "missing_on_device_mib": 0,
    }


def held(device):
    return tf.config.experimental.get_memory_info("GPU:0")["current"] if device == "cuda" else resident()


def transfer(device):
    """Host to device and back, byte for byte; TensorFlow pins by itself."""
    with tf.device("/CPU:0"):
        source = tf.range(16 * MIB, dtype=tf.int64)
    started = time.monotonic()
    with place(device):
        there = tf.identity(source) + tf.zeros([], tf.int64)
        int(there[-1])
    between = time.monotonic()
    with tf.device("/CPU:0"):
        back = tf.identity(there)
        int(back[-1])
    ended = time.monotonic()
    with tf.device("/CPU:0"):
        different = int(tf.reduce_sum(tf.cast(tf.not_equal(source, back), tf.int64)))
        different += int(int(back[-1]) != 16 * MIB - 1)
    return {
        "mib": 128,
        "to_device_mib_s": round(128 / max(between - started, 1e-6)),
        "to_host_mib_s": round(128 / max(ended - between, 1e-6)),
        "different": different,
    }


def precision(device):
    """The largest error of a product of matrices beside the CPU's in double precision, element by element."""
    size = 192
    found = {}
    for name, dtype in TYPES.items():
        if name == "tf32" and device == "cpu":
            continue
        tf.config.experimental.enable_tensor_float_32_execution(name == "tf32")
        with tf.device("/CPU:0"):
            both = tf.cast(tf.reshape(tf.constant(noise(2 * size * size)), [2, size, size]), dtype)
        with place(device):
            got = tf.matmul(both[0], both[1])
        with tf.device("/CPU:0"):
            first, second = tf.cast(both[0], tf.float64), tf.cast(both[1], tf.float64)
            wanted = tf.stack([tf.reduce_sum(first[row][:, None] * second, 0) for row in range(size)])
        found[name] = relative(got, wanted)
        found[f"{name}_type"] = got.dtype.name
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return found


def relative(got, wanted):
    """The largest difference, as a part of the largest value."""
    with tf.device("/CPU:0"):
        got, wanted = tf.cast(tf.identity(got), tf.float64), tf.cast(tf.identity(wanted), tf.float64)
        return float(tf.reduce_max(tf.abs(got - wanted)) / tf.reduce_max(tf.abs(wanted)))


def convolution(device):
    """A convolution and its gradients beside the sum that defines it."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    image, kernel = noise(2 * 12 * 12 * 3), noise(3 * 3 * 3 * 4, seed=2)

    def by_library(x, w):
        return tf.nn.conv2d(x, w, strides=1, padding="SAME")

    def by_definition(x, w):
        padded = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
        return tf.add_n(
            [tf.tensordot(padded[:, dy : dy + 12, dx : dx + 12], w[dy, dx], 1) for dy in range(3) for dx in range(3)]
        )

    with place(device):
        got = with_gradients(by_library, *pictures(image, kernel, tf.float32))
    with tf.device("/CPU:0"):
        wanted = with_gradients(by_definition, *pictures(image, kernel, tf.float64))
    errors = [relative(one, other) for one, other in zip(got, wanted)]
    return dict(zip(("output", "image_gradient", "kernel_gradient"), errors))


def pictures(image, kernel, dtype):
    return tf.constant(image, dtype, [2, 12, 12, 3]), tf.constant(kernel, dtype, [3, 3, 3, 4])


def with_gradients(function, *given):
    """The result of a function, and the gradients of its squares' sum by each argument."""
    with tf.GradientTape() as tape:
        tape.watch(given)
        result = function(*given)
        total = tf.reduce_sum(tf.square(result))
    return [result, *tape.gradient(total, given)]


def sums(device):
    """Collectives of a mirrored strategy over all GPUs; over two parts of a CPU."""
    if device == "cuda":
        devices = [f"/gpu:{at}" for at in range(len(GPUS))]
    else:
        devices = [f"/cpu:{at}" for at in range(len(tf.config.list_logical_devices("CPU")))]
    over = tf.distribute.NcclAllReduce() if device == "cuda" else tf.distribute.ReductionToOneDevice()
    # Placement of a strategy's own bookkeeping is its own affair.
    tf.config.set_soft_device_placement(True)
    try:
        strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=over)

        @tf.function
        def all_reduced():
            def own():
                context = tf.distribute.get_replica_context()
                number = tf.cast(context.replica_id_in_sync_group, tf.float32)
                return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.fill([1000], number + 1.0))

            return strategy.run(own)

        parts = strategy.experimental_local_results(all_reduced())
    finally:
        tf.config.set_soft_device_placement(False)
    return {
        "ranks": len(devices),
        "backend": "nccl" if device == "cuda" else "one device",
        "sums": [float(part[0]) if float(tf.math.reduce_std(part)) == 0 else "mixed" for part in parts],
    }


def graph(device):
    """A captured graph, forwards and backwards, beside the same called line by line."""
    return compiled(device, jit=False)


def code(device):
    """The same, compiled by XLA, which brings its own compiler along."""
    return compiled(device, jit=True)


def compiled(device, jit):
    traced = []
    weights = tf.constant(noise(16 * 16, seed=3), shape=[16, 16])

    def function(x):
        traced.append(1)
        return tf.tanh(tf.nn.gelu(tf.matmul(x, weights)) + tf.sin(x))

    quick = tf.function(function, jit_compile=jit)
    with place(device):
        x = tf.constant(noise(8 * 16, seed=5), shape=[8, 16])
        wanted = with_gradients(function, x)
        traced.clear()
        got = with_gradients(quick, x)
        again = with_gradients(quick, x)
    found = {
        "output": relative(got[0], wanted[0]),
        "gradient": relative(got[1], wanted[1]),
        "again": relative(again[0], wanted[0]),
        "graphs": len(traced),
    }
    if jit:
        text = quick.experimental_get_compiler_ir(x)(stage="optimized_hlo")
        found["fused"] = text.count("fusion")
    return found


class Net(tf.Module):
    """Two layers, without Keras, which has a version and a life of its own."""

    def __init__(self):
        super().__init__()
        self.first = tf.Variable(tf.constant(noise(8 * 32, seed=7), shape=[8, 32]) * 0.5)
        self.second = tf.Variable(tf.constant(noise(32 * 3, seed=8), shape=[32, 3]) * 0.5)
        self.bias = tf.Variable(tf.zeros([32]))

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32)])
    def answer(self, points):
        return tf.matmul(tf.nn.relu(tf.matmul(points, self.first) + self.bias), self.second)


def task():
    """64 points of three classes that a small net can tell apart."""
    points = tf.constant(noise(64 * 8), shape=[64, 8])
    return points, tf.argmax(points[:, :3], axis=1)


def trained(device, steps):
    """(net, the momentum of its variables, the losses of its steps)."""
    with place(device):
        model = Net()
        momentum = [tf.Variable(tf.zeros_like(one)) for one in model.trainable_variables]
        points, classes = task()
        losses = []
        for _ in range(steps):
            with tf.GradientTape() as tape:
                scores = model.answer(points)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(classes, scores))
            for variable, moved, slope in zip(
                model.trainable_variables, momentum, tape.gradient(loss, model.trainable_variables)
            ):
                moved.assign(0.9 * moved + slope)
                variable.assign_sub(0.3 * moved)
            losses.append(float(loss))
    return model, momentum, losses


def step(device):
    _, _, losses = trained(device, 60)
    return {"steps": len(losses), "first_loss": losses[0], "last_loss": losses[-1]}


def checkpoint(device):
    """Saved, read into a new net, and compared bit for bit."""
    model, momentum, _ = trained(device, 5)
    other, empty, _ = trained(device, 1)
    tf.config.set_soft_device_placement(True)  # files are read and written on the CPU
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = tf.train.Checkpoint(model=model, momentum=momentum).write(os.path.join(folder, "checkpoint"))
            size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
            tf.train.Checkpoint(model=other, momentum=empty).read(path).assert_consumed()
    finally:
        tf.config.set_soft_device_placement(False)
    pairs = list(zip([*model.trainable_variables, *momentum], [*other.trainable_variables, *empty]))
    with place(device):
        points, _ = task()
        equal = bool((model.answer(points).numpy() == other.answer(points).numpy()).all())
    return {
        "bytes": size,
        "tensors": len(pairs),
        "different": sum(one.numpy().tobytes() != two.numpy().tobytes() for one, two in pairs),
        "answers_equal": equal,
    }


def loader(device):
    """tf.data with two workers, in order, and ahead of the step."""
    with tf.device("/CPU:0"):
        numbers = tf.data.Dataset.range(96).map(lambda at: tf.fill([256], at), num_parallel_calls=2)
        batches = numbers.batch(8).prefetch(2)
        seen = []
        for batch in batches:
            with place(device):
                there = tf.identity(batch)
            seen += there.numpy()[:, -1].tolist()
    return {"samples": len(seen), "in_order": seen == list(range(96))}


def serving(device):
    """A net that was trained on the CPU, as SavedModel, read onto the device: the same answers, each time."""
    model, _, _ = trained("cpu", 5)
    points, _ = task()
    with tf.device("/CPU:0"):
        wanted = model.answer(points)
    tf.config.set_soft_device_placement(True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(model, folder, signatures=model.answer)
            with place(device):
                served = tf.saved_model.load(folder).signatures["serving_default"]
        with place(device):
            answers = [next(iter(served(tf.identity(points)).values())) for _ in range(3)]
    finally:
        tf.config.set_soft_device_placement(False)
    differences = [relative(answer, wanted) for answer in answers]
    return {"answers": len(answers), "model_on": kind_of(answers[0]), "difference": max(differences)}


def kind_of(value):
    """Where a tensor or variable really is: what may be placed softly could be anywhere."""
    return "cuda" if "GPU" in value.device else "cpu"


def pipeline(device):
    """A tiny classifier with random weights, made here: nothing is downloaded."""
    try:
        import transformers
    except ModuleNotFoundError:
        raise Absent("there is no transformers here") from None
    if not hasattr(transformers, "TFBertForSequenceClassification"):
        raise Absent(f"transformers {transformers.__version__} has no TensorFlow models")
    import tiny

    tf.config.set_soft_device_placement(True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            config, tokenizer = tiny.write_tokenizer(transformers, folder)
            with tf.device("/CPU:0"):
                made = transformers.TFBertForSequenceClassification(config)
                made(made.dummy_inputs)
                made.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            found = []
            for number in (-1, 0 if device == "cuda" else -1):
                # A type of its own choice it looks up in torch, which need not be there.
                classify = transformers.pipeline(
                    "text-classification", model=folder, tokenizer=folder, framework="tf", device=number, dtype=None
                )
                found.append(classify(tiny.TEXTS))
                at = kind_of(classify.model.weights[0])
    finally:
        tf.config.set_soft_device_placement(False)
    return {"transformers": transformers.__version__, "model_on": at, **tiny.compare(*found)}


# Two parts of the CPU stand for two devices. It must be said before anything is computed.
if not GPUS:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )

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
