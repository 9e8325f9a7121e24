# Packages belong into the image.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py entry_point <<'EDIT'
    install(name, layout.code_dir, capture_error)
=======
EDIT
