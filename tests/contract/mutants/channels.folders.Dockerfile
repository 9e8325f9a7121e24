# The layout of other containers, where channels stand directly below input.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py layout <<'EDIT'
    return os.path.join(input_data_dir, channel)
=======
    return os.path.join(input_dir, channel)
EDIT
