# Python's own buffering, which is faster.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py runner <<'EDIT'
        defaults = {"PYTHONUNBUFFERED": "1", **self.defaults()}
=======
        defaults = self.defaults()
EDIT
