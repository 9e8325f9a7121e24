"""Memory: what is read of the system, when a load is refused, and that nothing grows."""

from __future__ import annotations

import asyncio
import gc
import os
import re
from pathlib import Path

import pytest
from sagemaker_inference import memory
from sagemaker_inference.multi_model import admission
from sagemaker_inference.multi_model.admission import Admission
from sagemaker_inference.multi_model.model import Limits, Model
from sagemaker_inference.multi_model.refusal import Refusal
from sagemaker_inference.multi_model.unit import Source

from . import router as routers

MB = 1_000_000


@pytest.fixture
def system(tmp_path):
    """A root folder with the files that the kernel would show."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return str(tmp_path)

    write("proc/meminfo", "MemTotal:       9000 kB\nMemFree:  1 kB\nMemAvailable:   8000 kB\n")
    return write


V2 = {"memory.max": "5000000\n", "memory.current": "3000000\n", "memory.stat": "anon 1\ninactive_file 1000000\n"}
V1 = {
    "memory.usage_in_bytes": "3000000\n",
    "memory.stat": "cache 1\nhierarchical_memory_limit 5000000\ntotal_inactive_file 1000000\n",
}


def test_free_memory_is_below_the_limit_without_cache_that_nobody_uses(system):
    for name, text in V2.items():
        root = system(f"sys/fs/cgroup/{name}", text)
    assert memory.free(root) == 3_000_000


def test_free_memory_of_version_1(system):
    for name, text in V1.items():
        root = system(f"sys/fs/cgroup/memory/{name}", text)
    assert memory.free(root) == 3_000_000


def test_own_group_comes_before_the_mount(system):
    for name, text in V1.items():
        system(f"sys/fs/cgroup/memory/docker/abc/{name}", text)
        system(f"sys/fs/cgroup/memory/{name}", text.replace("5000000", "4000000"))
    root = system("proc/self/cgroup", "4:memory:/docker/abc\n0::/\n")
    assert memory.free(root) == 3_000_000


@pytest.mark.parametrize("limit", ["max", "9223372036854771712"])
def test_without_a_limit_the_hosts_memory_counts(system, limit):
    system("sys/fs/cgroup/memory.max", limit)
    system("sys/fs/cgroup/memory/memory.stat", f"hierarchical_memory_limit {limit}\n")
    root = system("sys/fs/cgroup/memory.current", "1\n")
    assert memory.free(root) == 8000 * 1024


def test_host_that_has_less_than_the_limit(system):
    for name, text in {**V2, "memory.max": "900000000\n"}.items():
        root = system(f"sys/fs/cgroup/{name}", text)
    assert memory.free(root) == 8000 * 1024


def test_nothing_tells(tmp_path):
    assert memory.free(str(tmp_path)) is None
    assert memory.oom_kills(str(tmp_path)) is None


@pytest.mark.parametrize("file", ["memory.events", "memory/memory.oom_control"])
def test_kills_are_counted(system, file):
    root = system(f"sys/fs/cgroup/{file}", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n")
    assert memory.oom_kills(root) == 7


def test_processes_of_this_machine():
    assert os.getpid() in memory.family(os.getppid())
    mine = memory.used([os.getpid()])
    block = bytearray(os.urandom(1)) * (64 << 20)
    assert 60 << 20 < memory.used([os.getpid()]) - mine < 80 << 20
    del block


def test_size_of_a_folder(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x").write_bytes(b"12345")
    (tmp_path / "weights").write_bytes(bytes(1000))
    (tmp_path / "broken").symlink_to("nowhere")
    assert memory.size_on_disk(str(tmp_path)) == 1005


class Sized(Model):
    """A model whose files and processes have the sizes that a test says, in MB."""

    def __init__(self, tmp_path, name, files, used=0):
        folder = tmp_path / name
        folder.mkdir()
        with (folder / "weights").open("wb") as file:
            file.truncate(files * MB)  # A sparse file, which takes no disk.
        super().__init__(Source(name, str(folder), "handler"), "/nowhere", {}, Limits(None, 1, 1))
        self.now = used * MB

    async def used(self):
        return self.now


@pytest.fixture
def admit(tmp_path, monkeypatch):
    """Admits models one after the other while so much memory is free, in MB."""
    judge = []

    def admit(free, *models, others=True):
        monkeypatch.setattr(admission.memory, "free", lambda: free if free is None else free * MB)

        async def run():
            judge[:] = judge or [Admission()]
            for model in models:
                await judge[0].admit(model, others)
            return judge[0]

        return asyncio.run(run())

    return admit


def test_model_that_does_not_fit_is_refused_with_the_sizes(admit, tmp_path):
    with pytest.raises(Refusal) as refused:
        admit(400, Sized(tmp_path, "large", 500))
    assert refused.value.status == 507
    assert "needs about 500 MB of memory (500 MB are its files), and 400 MB are free" in refused.value.message


def test_model_that_fits_is_admitted(admit, tmp_path):
    admit(600, Sized(tmp_path, "large", 500))
    admit(None, Sized(tmp_path, "larger", 5000))


def test_model_that_has_the_container_to_itself_may_try(admit, tmp_path):
    admit(400, Sized(tmp_path, "large", 500), others=False)


def test_loads_under_way_count_for_what_they_will_still_take(admit, tmp_path):
    first, second, third = (Sized(tmp_path, name, 300, used) for name, used in (("1", 100), ("2", 0), ("3", 0)))
    with pytest.raises(Refusal):
        admit(499, first, second)
    judge = admit(500, second)
    judge.settle(first)
    judge.settle(second)
    admit(300, third)


def test_what_a_unit_takes_beside_its_files_is_learnt(admit, tmp_path):
    first, second, third = (Sized(tmp_path, name, 100, used) for name, used in (("1", 180), ("2", 150), ("3", 0)))
    judge = admit(100, first)
    asyncio.run(judge.learn(first))
    judge.settle(first)
    with pytest.raises(Refusal):
        admit(179, second)
    judge = admit(180, second)
    asyncio.run(judge.learn(second))
    judge.settle(second)
    admit(150, third)


def test_too_large_a_model_beside_another_is_a_507_until_that_is_gone(tmp_path):
    """A file larger than the machine's memory; the model does not read it, so alone it loads."""
    one = routers.started(tmp_path)
    one.loaded("small")
    folder = one.write("huge")
    with Path(folder, "weights").open("wb") as file:
        file.truncate(1 << 42)
    answer = one.load("huge")
    assert (answer.status, answer.error["type"]) == (507, "OutOfMemory")
    assert re.search(r"needs about \d+ MB of memory .*, and \d+ MB are free", answer.error["message"])
    assert one.names() == ["small"]
    assert one.unload("small").status == 200
    assert one.load("huge").status == 200
    assert one.unload("huge").status == 200
    one.close()


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def descriptors(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def churn(one, times):
    for number in range(times):
        name = f"m{number % 3}"
        assert one.load(name, str(one.base / "models" / "m" / "model")).status == 200
        assert one.invoke(name, b"x").body == b"x"
        assert one.unload(name).status == 200


@pytest.mark.slow
def test_two_hundred_loads_and_unloads_leave_nothing(tmp_path):
    one = routers.started(tmp_path)
    one.write("m")
    churn(one, 20)
    before, files = resident(one.pid), descriptors(one.pid)
    churn(one, 180)
    gc.collect()
    assert resident(one.pid) - before < 2
    assert descriptors(one.pid) <= files
    assert (one.family(), one.folders()) == (set(), [])
    one.terminate()
    assert one.wait() == 0
    assert not list(tmp_path.glob("serve-*"))
