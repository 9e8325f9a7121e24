# Each block is passed on as it comes, and ends with a line end.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py relay <<'EDIT'
        cut = data.obj.rfind(b"\n", 0, len(data)) + 1  # type: ignore[attr-defined]
=======
        if not bytes(data).endswith(b"\n"):
            self._release(bytes(data) + b"\n")
            return
        cut = len(data)
EDIT
