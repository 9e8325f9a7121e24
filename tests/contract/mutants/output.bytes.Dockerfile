# Every redraw of a progress bar on a line of its own.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py relay <<'EDIT'
        self.tail.add(data)
=======
        data = memoryview(bytes(data).replace(b"\r", b"\n"))
        self.tail.add(data)
EDIT
