"""Training jobs on the real engine: what a container is given, and what comes of each way to end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests

from slipway.emulator import layout
from slipway.emulator.channels import Channel
from slipway.emulator.job import JobInterrupted, LogLine, TrainingJob, TrainingResult
from slipway.emulator.metrics import MetricDefinition
from slipway.emulator.training import run_training
from slipway.engine.docker import Engine
from slipway.errors import EngineError, InputError, NotFoundError

from .commands import Command
from .conftest import members

pytestmark = pytest.mark.integration

Script = Callable[[str], Path]


class Bench:
    """Runs jobs into one folder and keeps the log lines."""

    def __init__(self, engine: Engine, image: str, output: Path) -> None:
        self.engine, self.image, self.output = engine, image, output
        self.lines: list[LogLine] = []

    def run(
        self, source: Path | None, stop_at: str = "", s3_endpoint: str | None = None, **job: object
    ) -> TrainingResult:
        self.lines.clear()
        given = replace(TrainingJob(image=self.image, source=source, entry="train.py" if source else ""), **job)  # type: ignore[arg-type]
        return run_training(
            given,
            self.engine,
            self.output,
            on_line=self.lines.append,
            stop_when=(lambda line: line.text == stop_at) if stop_at else None,
            s3_endpoint=s3_endpoint,
        )

    def printed(self, stream: str = "stdout") -> list[str]:
        return [line.text for line in self.lines if line.stream == stream]


@pytest.fixture
def bench(engine: Engine, train_image: str, tmp_path: Path) -> Iterator[Bench]:
    Command.pids.clear()
    bench = Bench(engine, train_image, tmp_path / "output")
    yield bench
    left_by = {os.getpid(), *Command.pids} & set(engine.runs().values())
    assert not left_by, "containers or networks were left behind"
    left = [path.name for path in bench.output.glob(".*")] if bench.output.is_dir() else []
    assert left == [], "a work folder was left behind"


def test_the_container_sees_what_sagemaker_gives(bench: Bench, script: Script, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    (data / "a.bin").write_bytes(bytes(range(256)))
    (data / "sub" / "b.txt").write_text("b")
    source = script(
        """
import hashlib, json, os, pathlib, socket, stat
base = pathlib.Path("/opt/ml/input")
config = {path.stem: json.loads(path.read_text()) for path in (base / "config").iterdir()}
modes = {stat.S_IMODE(path.stat().st_mode) for path in (base / "config").iterdir()}
data = {str(path.relative_to(base / "data")): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (base / "data").rglob("*") if path.is_file()}
refused = False
try:
    (base / "data/train/new").touch()
except OSError:
    refused = True
(base / "sm_training.env").touch()
print(json.dumps({"config": config, "modes": sorted(modes), "data": data, "refused": refused,
                  "environment": dict(os.environ), "address": socket.gethostbyname("algo-1"),
                  "folders": sorted(os.listdir("/opt/ml"))}))
"""
    )
    result = bench.run(
        source,
        name="the-job",
        channels=(Channel("train", str(data)), Channel("single", f"file://{data}/a.bin", "text/csv")),
        hyperparameters={"epochs": 2, "name": "bob", "flag": True, "layers": [1, 2]},
        environment={"GREETING": "hello world"},
        metrics=(MetricDefinition("loss", "loss=([0-9.]+)"),),
        region="eu-west-1",
    )
    assert result.status == "Completed", bench.lines
    seen = json.loads(bench.printed()[0])

    assert seen["config"]["hyperparameters"] == {
        "epochs": "2",
        "name": '"bob"',
        "flag": "true",
        "layers": "[1, 2]",
        "sagemaker_program": '"train.py"',
        "sagemaker_submit_directory": '"/opt/ml/code"',
        "sagemaker_container_log_level": "20",
        "sagemaker_job_name": '"the-job"',
        "sagemaker_region": '"eu-west-1"',
    }
    assert seen["config"]["resourceconfig"]["current_host"] == "algo-1"
    assert seen["config"]["inputdataconfig"]["single"]["ContentType"] == "text/csv"
    assert "ContentType" not in seen["config"]["inputdataconfig"]["train"]
    assert seen["config"]["metric-definition-regex"] == {"loss": "loss=([0-9.]+)"}
    assert seen["modes"] == [0o644]
    bytes_of_a = sha256(bytes(range(256))).hexdigest()
    assert seen["data"] == {
        "train/a.bin": bytes_of_a,
        "train/sub/b.txt": sha256(b"b").hexdigest(),
        "single/a.bin": bytes_of_a,
    }
    assert seen["refused"], "a channel can be written to"
    environment = seen["environment"]
    assert environment["TRAINING_JOB_NAME"] == "the-job"
    assert environment["TRAINING_JOB_ARN"] == "arn:aws:sagemaker:eu-west-1:000000000000:training-job/the-job"
    assert (environment["AWS_REGION"], environment["GREETING"]) == ("eu-west-1", "hello world")
    assert seen["folders"] == ["code", "input", "model", "output"]
    assert not (data / "new").exists()


@pytest.mark.parametrize("code", [1, 3, 137])
def test_exit_code_and_failure_arrive(bench: Bench, script: Script, code: int) -> None:
    result = bench.run(script(f"raise SystemExit({code})"))
    assert (result.status, result.exit_code) == ("Failed", code)
    assert result.failure_reason == f"AlgorithmError: Exit Code: {code}"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_is_an_exit_code(bench: Bench, build: Callable[..., str], number: int) -> None:
    # The first process of a container ignores its own signals, so a child gets it.
    image = build()
    result = bench.run(None, image=image, entrypoint=("sh", "-c", f"sh -c 'kill -{int(number)} $$'"))
    assert result.exit_code == 128 + number


def test_failure_text_is_cut_at_1024_characters(bench: Bench, script: Script) -> None:
    result = bench.run(script("open('/opt/ml/output/failure', 'w').write('é' * 3000); raise SystemExit(1)"))
    assert result.failure_reason == "AlgorithmError: " + "é" * 1024


def test_a_failure_link_leads_nowhere_on_the_host(bench: Bench, script: Script, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    result = bench.run(script(f"import os; os.symlink({str(secret)!r}, '/opt/ml/output/failure'); raise SystemExit(1)"))
    assert result.failure_reason == "AlgorithmError: Exit Code: 1"


def test_an_output_link_leads_nowhere_on_the_host(bench: Bench, script: Script, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("of the host")
    folder, data = str(tmp_path / "secret"), "/opt/ml/output/data"
    result = bench.run(script(f"import os; os.rmdir({data!r}); os.symlink({folder!r}, {data!r})"))
    assert result.output is None
    assert (tmp_path / "secret" / "key").read_text() == "of the host"


def test_success_ignores_a_failure_file(bench: Bench, script: Script) -> None:
    result = bench.run(script("open('/opt/ml/output/failure', 'w').write('not so bad')"))
    assert (result.status, result.failure_reason) == ("Completed", "")


def test_artefacts_are_packed_and_replaced(bench: Bench, script: Script) -> None:
    source = script(
        "import os\n"
        "os.makedirs('/opt/ml/model/sub'); open('/opt/ml/model/sub/w', 'w').write('weights')\n"
        "os.symlink('/etc/shadow', '/opt/ml/model/link'); os.mkfifo('/opt/ml/model/pipe')\n"
        "open('/opt/ml/output/data/plot', 'w').write('plot')\n"
    )
    result = bench.run(source)
    assert result.model is not None and result.output is not None
    assert members(result.model) == {"sub/w": b"weights"}
    assert members(result.output) == {"plot": b"plot"}
    assert any("link" in note for note in result.notes) and any("pipe" in note for note in result.notes)
    first = result.model.read_bytes()
    again = bench.run(source)
    assert again.model is not None and again.model.read_bytes() == first, "two packs of equal files differ"
    assert bench.run(script("pass")).model is None
    assert not (bench.output / "model.tar.gz").exists(), "the model of a former job stayed"


def test_no_line_of_ten_thousand_is_lost_or_torn(bench: Bench, script: Script) -> None:
    source = script(
        "import sys\n"
        "for i in range(10000):\n"
        "    sys.stdout.write(f'step {i} '); sys.stdout.flush()\n"
        "    sys.stderr.write(f'other {i}\\n')\n"
        "    sys.stdout.write(f'loss={i}.5\\n'); sys.stdout.flush()\n"
    )
    values: list[float] = []
    job = TrainingJob(
        image=bench.image, source=source, entry="train.py", metrics=(MetricDefinition("loss", r"loss=([0-9.]+)"),)
    )
    result = run_training(
        job,
        bench.engine,
        bench.output,
        on_line=bench.lines.append,
        on_metric=lambda value: values.append(value.value),
    )
    assert values == [i + 0.5 for i in range(10000)]
    assert bench.printed() == [f"step {i} loss={i}.5" for i in range(10000)]
    assert bench.printed("stderr") == [f"other {i}" for i in range(10000)]
    assert [(m.count, m.last, m.min, m.max) for m in result.metrics] == [(10000, 9999.5, 0.5, 9999.5)]
    assert result.hosts[0].log.read_bytes().count(b"\n") == 20000


def test_problems_of_a_metric_are_named(bench: Bench, script: Script) -> None:
    source = script("print({'eval_accuracy': 0.5}); print('loss: 5e-05')")
    accuracy, loss = MetricDefinition("accuracy", "'accuracy': ([0-9.]+)"), MetricDefinition("loss", r"loss: ([0-9.]+)")
    result = bench.run(source, metrics=(accuracy, loss))
    assert [(problem.name, problem.kind) for problem in result.problems] == [
        ("accuracy", "never-matched"),
        ("loss", "cut-short"),
    ]
    assert "eval_" in result.problems[0].what


GRACEFUL = """
import signal, sys
def on_term(number, frame):
    open('/opt/ml/model/saved', 'w').write('in time')
    sys.exit(0)
# Waited for, not handled: a handler may miss a signal that comes right before the pause.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print('ready', flush=True)
while True: on_term(signal.sigwait({signal.SIGTERM}), None)
"""


def test_stop_gives_the_script_time_to_save(bench: Bench, script: Script) -> None:
    result = bench.run(script(GRACEFUL), stop_at="ready")
    assert (result.status, result.stopped_by, result.exit_code) == ("Stopped", "caller", 0)
    assert result.model is not None and members(result.model) == {"saved": b"in time"}


def test_who_ignores_sigterm_is_killed_after_the_grace(bench: Bench, script: Script) -> None:
    source = script(GRACEFUL.replace("    sys.exit(0)", "    print('ignored', flush=True)"))
    result = bench.run(source, stop_at="ready", stop_grace=1.0)
    assert (result.status, result.exit_code) == ("Stopped", 137)
    assert "ignored" in bench.printed()


def test_time_limit_stops_the_job(bench: Bench, script: Script) -> None:
    result = bench.run(script(GRACEFUL), time_limit=3.0)
    assert (result.status, result.stopped_by) == ("Stopped", "time limit")
    assert result.model is not None, "a job that is stopped keeps its model"


def test_two_hosts_find_each_other_and_merge_their_models(bench: Bench, script: Script) -> None:
    source = script(
        """
import json, pathlib, socket, time
me = json.loads(pathlib.Path("/opt/ml/input/config/resourceconfig.json").read_text())
name = me["current_host"]
pathlib.Path("/opt/ml/model", name).write_text(name)
pathlib.Path("/opt/ml/model/same").write_text(name)
if name == "algo-1":
    server = socket.create_server(("", 7777))
    server.accept()[0].sendall(b"hello")
else:
    for attempt in range(100):
        try:
            print(socket.create_connection(("algo-1", 7777)).recv(5).decode(), me["hosts"])
            break
        except OSError:
            time.sleep(0.1)
"""
    )
    result = bench.run(source, hosts=2)
    assert result.status == "Completed", bench.lines
    assert bench.printed() == ["hello ['algo-1', 'algo-2']"]
    assert result.model is not None
    assert members(result.model) == {"algo-1": b"algo-1", "algo-2": b"algo-2", "same": b"algo-2"}


def test_one_failed_host_fails_the_job_and_ends_the_other(bench: Bench, script: Script) -> None:
    source = script(
        "import json\n"
        "if json.load(open('/opt/ml/input/config/resourceconfig.json'))['current_host'] == 'algo-2':\n"
        "    open('/opt/ml/output/failure', 'w').write('broken'); raise SystemExit(5)\n" + GRACEFUL
    )
    result = bench.run(source, hosts=2)
    assert (result.status, result.exit_code, result.failure_reason) == ("Failed", 5, "AlgorithmError: broken")
    assert [host.exit_code for host in result.hosts][1] == 5


def test_another_user_and_a_read_only_root_can_save(bench: Bench, script: Script) -> None:
    source = script("import os; open('/opt/ml/model/m', 'w').write(str(os.getuid())); open('/tmp/t', 'w')")
    result = bench.run(source, user="12345:12345", read_only=True)
    assert result.status == "Completed", bench.lines
    assert result.model is not None and members(result.model) == {"m": b"12345"}


def test_a_caller_who_is_not_root_gets_what_root_wrote(
    bench: Bench, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = set()

    def pack(folders: list[Path], target: Path) -> list[str]:
        owners.update(path.lstat().st_uid for folder in folders for path in folder.rglob("*"))
        return []

    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(layout, "pack", pack)
    bench.run(script("import os; os.mkdir('/opt/ml/model/d', 0o700); open('/opt/ml/model/d/f', 'w').close()"))
    assert owners == {12345}


def test_checkpoints_come_and_go(bench: Bench, script: Script, tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    (checkpoints / "old").write_text("restored")
    source = script(
        "import json\n"
        "folder = json.load(open('/opt/ml/input/config/checkpointconfig.json'))['LocalPath']\n"
        "print(open(folder + 'old').read()); open(folder + 'new', 'w').write('saved')\n"
    )
    bench.run(source, checkpoints=str(checkpoints))
    assert bench.printed() == ["restored"]
    assert (checkpoints / "new").read_text() == "saved"


def test_without_a_toolkit_the_image_gets_train(bench: Bench, build: Callable[..., str]) -> None:
    image = build('ENTRYPOINT ["echo", "entry"]')
    assert bench.run(None, image=image).status == "Completed"
    assert bench.printed() == ["entry train"]
    bench.run(None, image=image, entrypoint=("echo", "other"))
    assert bench.printed() == ["other"]
    bench.run(None, image=image, arguments=("--a", "b c"))
    assert bench.printed() == ["entry --a b c"]


def test_an_unknown_image_leaves_nothing(bench: Bench) -> None:
    with pytest.raises(NotFoundError, match="slipway-test/none"):
        bench.run(None, image="slipway-test/none")
    assert not bench.output.exists()


def test_an_error_in_the_callers_code_leaves_nothing(bench: Bench, script: Script) -> None:
    job = TrainingJob(image=bench.image, source=script(GRACEFUL), entry="train.py")

    def fail(line: LogLine) -> None:
        raise RuntimeError("of the caller")

    with pytest.raises(RuntimeError, match="of the caller"):
        run_training(job, bench.engine, bench.output, on_line=fail)


class Interrupting:
    """An engine's client that presses Ctrl-C at its n-th call."""

    def __init__(self, api: Any, at: int) -> None:
        self.api, self.at, self.calls = api, at, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.api, name)

        def call(*args: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                os.kill(os.getpid(), signal.SIGINT)
            return found(*args, **options)

        return call


def test_ctrl_c_at_any_moment_leaves_nothing(bench: Bench, script: Script) -> None:
    source = script("print('done')")
    job = TrainingJob(image=bench.image, source=source, entry="train.py")
    for at in range(1, 40):
        api = Interrupting(bench.engine._api, at)
        try:
            run_training(job, Engine(api), bench.output)
        except (KeyboardInterrupt, JobInterrupted):
            assert api.calls >= at
        else:
            assert api.calls < at, f"Ctrl-C at call {at} was lost"
            assert at > 10, "too few calls to have tried anything"
            return
        assert os.getpid() not in bench.engine.runs().values(), f"left behind by Ctrl-C at call {at}"
        assert not list(bench.output.glob(".*")), f"left behind by Ctrl-C at call {at}"
    raise AssertionError("it never came to the end")


class Failing(Interrupting):
    """An engine's client that loses its engine when it waits for a container; `back`: it is there again at once."""

    back = False
    waits = 0

    def wait(self, *args: Any, **options: Any) -> Any:
        if self.back and self.waits:
            return self.api.wait(*args, **options)
        self.waits += 1
        raise requests.ConnectionError("gone")

    def inspect_container(self, *args: Any, **options: Any) -> Any:
        if self.waits and not self.back:
            raise requests.ConnectionError("gone")
        return self.api.inspect_container(*args, **options)


def test_an_engine_that_goes_away_is_named(bench: Bench, script: Script) -> None:
    job = TrainingJob(image=bench.image, source=script("pass"), entry="train.py")
    with pytest.raises(EngineError, match=r"stopped answering \(wait for algo-1\): gone"):
        run_training(job, Engine(Failing(bench.engine._api, 0)), bench.output)


def test_a_wait_that_was_cut_off_is_taken_up_again(bench: Bench, script: Script) -> None:
    """As by what stands between, to which a long silence is an end."""
    job = TrainingJob(image=bench.image, source=script("import sys; sys.exit(3)"), entry="train.py")
    api = Failing(bench.engine._api, 0)
    api.back = True
    assert run_training(job, Engine(api), bench.output).exit_code == 3
    assert api.waits == 1


def test_ctrl_c_loses_no_line(bench: Bench, script: Script) -> None:
    lines: list[str] = []

    def on_line(line: LogLine) -> None:
        lines.append(line.text)
        if line.text == "line 500":
            os.kill(os.getpid(), signal.SIGINT)

    many = "for i in range(2000): print('line', i, flush=i % 7 == 0)"
    source = script(GRACEFUL.replace("print('ready', flush=True)", many))
    job = TrainingJob(image=bench.image, source=source, entry="train.py")
    with pytest.raises(JobInterrupted) as caught:
        run_training(job, bench.engine, bench.output, on_line=on_line)
    result = caught.value.result
    assert (result.status, result.stopped_by) == ("Stopped", "Ctrl-C")
    assert len(lines) > 500 and lines == [f"line {i}" for i in range(len(lines))]
    assert result.hosts[0].log.read_text().splitlines() == lines


def test_a_folder_that_cannot_hold_the_results_is_named(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot hold the results"):
        run_training(TrainingJob(image=bench.image), bench.engine, tmp_path / "file")


def test_two_runs_at_once_do_not_meet(bench: Bench, script: Script, tmp_path: Path) -> None:
    source = script("import os; open('/opt/ml/model/m', 'w').write(os.environ['WHO'])")

    def run(who: str) -> TrainingResult:
        job = TrainingJob(image=bench.image, source=source, entry="train.py", environment={"WHO": who}, hosts=2)
        return run_training(job, bench.engine, tmp_path / who)

    with ThreadPoolExecutor() as pool:
        for who, result in zip("ab", pool.map(run, "ab"), strict=True):
            assert result.status == "Completed"
            assert result.model is not None and members(result.model) == {"m": who.encode()}


@pytest.fixture
def bucket(s3: str, aws_keys: None) -> str:
    client = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket="data")
    for key, body in {
        "set/train/a": b"a",
        "set/train/deep/b": b"b",
        "set/train/": b"",
        "set/test/c": b"c",
        "bad/../x": b"x",
    }.items():
        client.put_object(Bucket="data", Key=key, Body=body)
    return "s3://data"


def test_a_channel_comes_from_s3(bench: Bench, script: Script, s3: str, bucket: str) -> None:
    source = script(
        "import pathlib\n"
        "base = pathlib.Path('/opt/ml/input/data')\n"
        "print(sorted(str(p.relative_to(base)) for p in base.rglob('*') if p.is_file()))\n"
    )
    channels = (
        Channel("all", f"{bucket}/set/"),
        Channel("train", f"{bucket}/set/train"),
        Channel("one", f"{bucket}/set/test/c"),
    )
    result = bench.run(source, s3_endpoint=s3, channels=channels)
    assert result.status == "Completed", bench.lines
    assert bench.printed() == ["['all/test/c', 'all/train/a', 'all/train/deep/b', 'one/c', 'train/a', 'train/deep/b']"]


def test_every_fault_of_s3_is_named_at_once(bench: Bench, s3: str, bucket: str) -> None:
    channels = (
        Channel("empty", f"{bucket}/nothing"),
        Channel("gone", "s3://no-such-bucket/x"),
        Channel("bad", f"{bucket}/bad"),
    )
    with pytest.raises(InputError) as caught:
        bench.run(None, s3_endpoint=s3, channels=channels)
    text = str(caught.value)
    assert "channel empty: there is no object at s3://data/nothing" in text
    assert "channel gone: there is no bucket" in text
    assert "'bad/../x'" in text
    assert not bench.output.exists()


def test_an_s3_that_does_not_answer_is_named(bench: Bench, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(InputError, match=r"s3://data/set cannot be read.*127\.0\.0\.1:1"):
        bench.run(None, s3_endpoint="http://127.0.0.1:1", channels=(Channel("train", f"{bucket}/set"),))


def test_the_command_shows_log_metrics_and_artefacts(bench: Bench, script: Script, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    inputs, metrics = tmp_path / "inputs.tsv", tmp_path / "metrics.tsv"
    inputs.write_text("channel_name\tdata_location\ntrain\tdata\n")
    metrics.write_text("metric_name\tmetric_regex\naccuracy\t'accuracy': ([0-9.]+)\nf1\t'f1': ([0-9.]+)\n")
    source = script(
        "print(\"epoch 0: {'accuracy': 0.8125, 'f1': 0.5}\"); open('/opt/ml/model/m', 'w').write('m')\n"
        "import os; shm = os.statvfs('/dev/shm')\n"
        "open('/opt/ml/checkpoints/c', 'w').write(str(shm.f_frsize * shm.f_blocks))"
    )
    options = [
        *("--image", bench.image, "--source", str(source), "--entry", "train.py", "--output", str(bench.output)),
        *("--inputs", str(inputs), "--metrics", str(metrics), "--hyperparameters", "epochs=2,layers=[1,2]"),
        *("--plot", str(tmp_path / "metrics.svg"), "--checkpoints", str(tmp_path / "kept"), "--shm-size", "96m"),
    ]
    code, stdout, stderr = Command("run", *options).end()
    assert code == 0, stderr
    assert "epoch 0: {'accuracy': 0.8125" in stderr
    assert [line.split() for line in stdout.splitlines()[:4]][2:] == [
        ["accuracy", "0.8125", "0.8125", "0.8125", "1"],
        ["f1", "0.5", "0.5", "0.5", "1"],
    ]
    assert "metric accuracy = 0.8125" in stderr
    assert str(bench.output / "model.tar.gz") in stdout and f"plot: {tmp_path / 'metrics.svg'}" in stdout
    assert "accuracy" in (tmp_path / "metrics.svg").read_text()
    assert (tmp_path / "kept" / "c").read_text() == str(96 << 20)
    code, stdout, _ = Command("run", *options, "--json").end()
    document = json.loads(stdout)
    assert (code, document["status"], document["metrics"][0]["last"]) == (0, "Completed", 0.8125)
    finals = document["final_metric_data_list"]
    assert [(each["MetricName"], each["Value"]) for each in finals] == [("accuracy", 0.8125), ("f1", 0.5)]
    assert all(datetime.fromisoformat(each["Timestamp"]).utcoffset() == timedelta() for each in finals)
    assert [each["status"] for each in document["transitions"]][-2:] == ["Uploading", "Completed"]


def test_the_commands_exit_code_says_that_the_job_failed(bench: Bench, script: Script) -> None:
    source = script("raise SystemExit(7)")
    options = ("--image", bench.image, "--source", str(source), "--entry", "train.py", "--output", str(bench.output))
    code, stdout, stderr = Command("run", *options, "--json").end()
    assert code == 14
    assert json.loads(stdout)["exit_code"] == 7
    assert "AlgorithmError: Exit Code: 7" in stderr


def test_the_command_names_all_faults_at_once(bench: Bench, tmp_path: Path) -> None:
    inputs, metrics = tmp_path / "inputs.tsv", tmp_path / "metrics.tsv"
    inputs.write_text("channel_name\tdata_location\ntrain\tnowhere\n")
    metrics.write_text("metric_name\tmetric_regex\nloss\tloss=[0-9]+\n")
    code, _, stderr = Command(
        "run",
        *("--image", bench.image, "--inputs", str(inputs), "--metrics", str(metrics), "--hyperparameters", "a"),
        *("--env", "NOT_SET_ANYWHERE", "--hosts", "two", "--time-limit", "1h"),
        *("--shm-size", "2 gigs", "--ulimit", "nofiles=1", "--warm-pool", "../x", "--instance-groups", "a"),
    ).end()
    assert code == 4
    for part in (
        "--hosts takes a whole number, not 'two'",
        "--time-limit takes a whole number, not '1h'",
        f"{inputs}:2:",
        f"{metrics}:2:",
        "'a' is no KEY=VALUE",
        "NOT_SET_ANYWHERE",
        "--shm-size '2 gigs' is no size",
        "did you mean nofile",
        "--warm-pool '../x' is no name",
        "--instance-groups: 'a' is no group",
    ):
        assert part in stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_the_job_and_leaves_nothing(bench: Bench, script: Script, number: signal.Signals) -> None:
    options = (
        "--image",
        bench.image,
        "--source",
        str(script(GRACEFUL)),
        "--entry",
        "train.py",
        "--output",
        str(bench.output),
    )
    command = Command("run", *options)
    command.until("ready")
    os.kill(command.child.pid, number)
    code, stdout, stderr = command.end()
    assert code == 130, stderr
    assert "Traceback" not in stderr
    assert "Stopped" in stdout
    assert members(bench.output / "model.tar.gz") == {"saved": b"in time"}


def test_ctrl_c_twice_does_not_wait(bench: Bench, script: Script) -> None:
    source = script(GRACEFUL.replace("    sys.exit(0)", "    print('ignored', flush=True)"))
    command = Command(
        "run", "--image", bench.image, "--source", str(source), "--entry", "train.py", "--output", str(bench.output)
    )
    command.until("ready")
    os.kill(command.child.pid, signal.SIGINT)
    command.until("ignored")
    os.kill(command.child.pid, signal.SIGINT)
    assert command.end()[0] == 130
