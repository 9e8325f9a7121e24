"""The event stream of response streaming, as botocore reads it."""

from __future__ import annotations

from botocore.eventstream import EventStreamBuffer

from slipway.emulator.runtime import event


def test_botocore_reads_what_is_written() -> None:
    headers = {":event-type": "PayloadPart", ":message-type": "event", ":content-type": "application/octet-stream"}
    buffer = EventStreamBuffer()
    buffer.add_data(event(headers, b"\0one") + event(headers, b""))
    first, second = buffer
    assert (first.headers, first.payload) == (headers, b"\0one")
    assert (second.headers, second.payload) == (headers, b"")
