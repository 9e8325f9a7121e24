"""The script's output: every byte, in whole lines, at once."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sagemaker_training import relay


def read_all(fd, into):
    while True:
        chunk = os.read(fd, 65536)
        if not chunk:
            return
        into.append(chunk)


class Bench:
    """A relay between pipes that the test holds."""

    def __init__(self, sources=1):
        self.relay = relay.Relay()
        self.reader, writer = os.pipe()
        self.sink = relay.Sink(writer)
        self.writers, self.streams = [], []
        for _ in range(sources):
            source, feed = relay.open_pipe()
            self.writers.append(feed)
            self.streams.append(self.relay.add(source, self.sink))

    def arrived(self):
        os.set_blocking(self.reader, False)
        try:
            return os.read(self.reader, 1 << 20)
        except BlockingIOError:
            return b""

    def feed(self, data, source=0):
        os.write(self.writers[source], data)
        self.relay.pump(0)
        return self.arrived()

    def end(self):
        for writer in self.writers:
            os.close(writer)
        self.relay.drain(1)
        return self.arrived()


def test_line_is_held_until_it_is_whole():
    bench = Bench()
    assert bench.feed(b"loss=0.") == b""
    assert bench.feed(b"25\nnext") == b"loss=0.25\n"
    assert bench.end() == b"next"


def test_last_line_without_an_end_stays_so():
    bench = Bench()
    assert bench.feed(b"  a\n\n\n b") == b"  a\n\n\n"
    assert bench.end() == b" b"


def test_lines_of_two_sources_are_never_mixed():
    bench = Bench(2)
    assert bench.feed(b"rank0 lo", 0) == b""
    assert bench.feed(b"rank1 loss=1\nrank1 ", 1) == b"rank1 loss=1\n"
    assert bench.feed(b"ss=2\n", 0) == b"rank0 loss=2\n"
    assert bench.end() == b"rank1 "


def test_progress_bar_is_passed_on_as_it_is():
    bench = Bench()
    assert bench.feed(b"\r 10%\r 20%") == b"\r 10%\r"
    assert bench.feed(b"\r100%\n") == b" 20%\r100%\n"


def test_progress_bars_of_two_sources_wait_for_their_line():
    bench = Bench(2)
    assert bench.feed(b"\r 10%\r", 0) == b""
    assert bench.feed(b"line\n", 1) == b"line\n"
    assert bench.feed(b"done\n", 0) == b"\r 10%\rdone\n"


def test_line_without_an_end_does_not_grow_for_ever():
    bench = Bench()
    received = []
    thread = threading.Thread(target=read_all, args=(bench.reader, received))
    thread.start()
    for _ in range(40):
        os.write(bench.writers[0], b"x" * 65536)
        bench.relay.pump(0)
    assert bench.streams[0]._held_size <= relay.HOLD_BYTES + 65536
    bench.end_writer = os.close(bench.writers[0])
    bench.relay.drain(1)
    os.close(bench.sink.fd)
    thread.join()
    assert b"".join(received) == b"x" * 65536 * 40


def test_four_ranks_with_two_streams_each_lose_and_tear_nothing():
    """Lines longer than a pipe's block among short ones, and now and then all writers stop inside a number at once."""
    moved, received, threads = relay.Relay(), {1: [], 2: []}, []
    halfway = threading.Barrier(8)

    def line(rank, stream, number):
        return f"rank{rank} {stream} {number} loss=0.", f"25 {'x' * (70_000 if number % 20 == 7 else 9)} end\n"

    def write(feed, rank, stream):
        with os.fdopen(feed, "wb", buffering=0) as file:
            for number in range(200):
                first, second = (half.encode() for half in line(rank, stream, number))
                if number % 20 != 7:
                    file.write(first + second)
                    continue
                file.write(first)
                halfway.wait(60)
                file.write(second[:4096])
                halfway.wait(60)
                file.write(second[4096:])

    sinks = []
    for stream in (1, 2):
        reader, writer = os.pipe()
        sinks.append(relay.Sink(writer))
        threads.append(threading.Thread(target=read_all, args=(reader, received[stream])))
        for rank in range(4):
            source, feed = relay.open_pipe()
            moved.add(source, sinks[-1])
            threads.append(threading.Thread(target=write, args=(feed, rank, stream)))
    for thread in threads:
        thread.start()
    moved.drain(60)
    for sink in sinks:
        os.close(sink.fd)
    for thread in threads:
        thread.join()
    for stream in (1, 2):
        lines = b"".join(received[stream]).decode().splitlines(keepends=True)
        for rank in range(4):
            own = [text for text in lines if text.startswith(f"rank{rank} ")]
            assert own == ["".join(line(rank, stream, number)) for number in range(200)]
        assert len(lines) == 800


def test_tail_keeps_the_last_lines_only():
    tail = relay.Tail()
    for number in range(100000):
        tail.add(memoryview(f"line {number}\n".encode()))
    text = tail.text()
    assert text.endswith("line 99999\n")
    assert len(text.splitlines()) == relay.TAIL_LINES
    assert len(tail._chunks) <= relay.TAIL_LINES + 1  # Each has its own cost, however small it is.
    tail.add(memoryview(b"y" * 1000000))
    assert len(tail.text()) <= relay.TAIL_BYTES


def test_tail_of_a_progress_bar_is_its_last_state():
    tail = relay.Tail()
    tail.add(memoryview(b"\r 10%\r 99%\r100%\r\nnext\r\n"))
    assert tail.text() == "100%\nnext\n"


def test_consumer_that_is_gone_does_not_stop_the_script():
    reader, writer = os.pipe()
    os.close(reader)
    sink = relay.Sink(writer)
    sink.write(memoryview(b"lost\n"))
    assert isinstance(sink.error, BrokenPipeError)
    os.close(writer)


def test_slow_nonblocking_consumer_gets_everything():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    received = []
    thread = threading.Thread(target=read_all, args=(reader, received))
    thread.start()
    relay.Sink(writer).write(memoryview(b"z" * 1000000))
    os.close(writer)
    thread.join()
    assert len(b"".join(received)) == 1000000


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=200) | st.sampled_from([b"\n", b"\r", b"\r\n", b"a\n"]), max_size=30))
def test_any_bytes_in_any_pieces_arrive_unchanged(pieces):
    bench = Bench()
    got = b"".join(bench.feed(piece) for piece in pieces if piece)
    assert got + bench.end() == b"".join(pieces)
    os.close(bench.reader)
    os.close(bench.sink.fd)


# From here on through ``train``


def test_streams_stay_apart_and_bytes_are_kept(job):
    job.script(
        """
        import os
        os.write(1, b"  out \\xff\\xfe\\n\\n\\tlast")
        os.write(2, b" err\\r\\n")
        """,
        sagemaker_container_log_level="50",
    )
    process = job.start()
    out, err = process.communicate(timeout=30)
    assert (out, err) == (b"  out \xff\xfe\n\n\tlast", b" err\r\n")


def test_metric_lines_arrive_whole(job):
    """What the platform greps for: no line of ten thousand is torn, though each is written in pieces."""
    job.script(
        """
        for i in range(10000):
            print("loss=", i, " acc=", i / 10000)
        """
    )
    done = job.run()
    assert [int(x) for x in re.findall(r"^loss= (\d+)  acc= [\d.]+$", done.out, re.MULTILINE)] == list(range(10000))


def test_slow_line_arrives_in_one_piece(job):
    """Each read of the log's consumer sees whole lines only, while the script pauses inside one."""
    job.script(
        """
        import sys, time
        sys.stdout.write("loss=0."); sys.stdout.flush()
        time.sleep(0.2)
        sys.stdout.write("25\\n")
        """
    )
    process = job.start(stderr=subprocess.DEVNULL)
    chunks = []
    read_all(process.stdout.fileno(), chunks)
    process.wait()
    assert chunks == [b"loss=0.25\n"]


def test_line_is_there_before_the_script_ends(job):
    job.script("print('first'); input()")
    process = job.start(stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline() == b"first\n"
    process.communicate(b"\n", timeout=30)
    assert process.returncode == 0


def test_long_lines(job):
    job.script("print('a' * 300000 + 'END'); import sys; print('b' * 100000, file=sys.stderr)")
    done = job.run()
    assert done.out == "a" * 300000 + "END\n"
    assert "\n" + "b" * 100000 + "\n" in done.err


@pytest.mark.parametrize("stream", [1, 2])
def test_ten_megabytes_on_one_stream_while_the_other_is_idle(job, stream):
    job.script(
        f"""
        import os
        line = b"x" * 99 + b"\\n"
        for _ in range(100000):
            os.write({stream}, line)
        print("end")
        """,
        sagemaker_container_log_level="50",
    )
    done = job.run()
    assert done.code == 0
    assert len(done.out if stream == 1 else done.err) >= 10000000
    assert done.out.endswith("end\n")


def test_log_handler_on_stdout_and_much_stderr(job):
    """A handler that writes to stdout while stderr is flooded (a hang in the reference toolkit)."""
    job.script(
        """
        import logging, sys
        logging.basicConfig(stream=sys.stdout)
        for i in range(20000):
            logging.warning("out %d", i)
            print("err", i, file=sys.stderr)
        """
    )
    done = job.run()
    assert done.code == 0
    assert done.out.count("\n") == 20000


def test_both_streams_in_one_place_keep_their_order(job):
    """Where stdout and stderr are one file, as under 2>&1, the order is exact."""
    job.script(
        """
        import os
        for i in range(2000):
            os.write(1 + i % 2, b"%d\\n" % i)
        """,
        sagemaker_container_log_level="50",
    )
    done = job.finish(job.start(stderr=subprocess.STDOUT))
    assert done.out.split() == [str(i) for i in range(2000)]


def test_background_process_does_not_keep_the_job_alive(job):
    job.code("train.sh", "sleep 1000 &\necho started\n")
    job.hyperparameters({"sagemaker_program": "train.sh"})
    done = job.run()
    assert (done.code, done.out) == (0, "started\n")


def test_background_process_in_a_session_of_its_own_neither(job):
    job.script(
        """
        import os, subprocess
        child = subprocess.Popen(["sleep", "30"], start_new_session=True)
        print(child.pid)
        """
    )
    done = job.run()
    os.kill(int(done.out), 9)
    assert done.code == 0


def test_last_lines_of_a_tee_are_waited_for(job):
    """bash does not wait for process substitutions: the tee works off its lines after the script has ended."""
    job.code(
        "train.sh",
        '#!/bin/bash\nexec > >(while read l; do echo "log $l"; done)\nfor i in $(seq 100); do echo $i; done\n',
    )
    job.hyperparameters({"sagemaker_program": "train.sh"})
    assert job.run().out == "".join(f"log {i}\n" for i in range(1, 101))


def test_toolkits_line_never_joins_an_unfinished_one(job):
    job.script("import sys; sys.stderr.write('loss=0.5'); sys.exit(3)")
    assert "\nloss=0.5\n20" in job.run().err


def test_full_log_device_is_reported(job):
    job.script("print('x' * 100)")
    with Path("/dev/full").open("wb") as full:
        done = job.finish(job.start(stdout=full))
    assert done.code == 0
    assert "lines on stdout are lost" in done.err
