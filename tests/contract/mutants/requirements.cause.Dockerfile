# A requirement that cannot be had may be there already.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py modules <<'EDIT'
    raise_for(outcome, error_class)
=======
    if outcome.returncode:
        logger.warning("not everything was installed")
EDIT
