# Values as Python writes them.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py mapping <<'EDIT'
    return {prefix + str(key).upper(): encode(value) for key, value in mapping.items()}
=======
    return {prefix + str(key).upper(): str(value) for key, value in mapping.items()}
EDIT
