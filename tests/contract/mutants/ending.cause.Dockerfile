# The end of the log says it all.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py failures <<'EDIT'
    head = [_shorten(cause, _CAUSE_LIMIT)] if cause else []
=======
    head: List[str] = []
EDIT
