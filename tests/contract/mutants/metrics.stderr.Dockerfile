# One stream, so that the order is exact.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py process <<'EDIT'
        one = self._sinks["stdout"] is self._sinks["stderr"]
=======
        one = True
EDIT
