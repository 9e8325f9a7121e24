# Booleans as JSON writes them.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py mapping <<'EDIT'
def _argument(value: Any, as_json: bool) -> str:
=======
def _argument(value: Any, as_json: bool) -> str:
    if isinstance(value, bool):
        return encode(value)
EDIT
