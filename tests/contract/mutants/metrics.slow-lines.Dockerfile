# A prompt without a line end is shown after a moment.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py relay <<'EDIT'
        for fd, _ in self._poll.poll(None if timeout is None else max(0, int(timeout * 1000))):
=======
        ready = self._poll.poll(250)
        for stream in () if ready else self._streams.values():
            if stream._held:
                stream._release(b"\n")
        for fd, _ in ready:
EDIT
