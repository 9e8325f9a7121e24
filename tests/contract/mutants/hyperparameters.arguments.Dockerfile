# Several values in one hyperparameter.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py mapping <<'EDIT'
        arguments.append(_argument(mapping[key], as_json))
=======
        arguments.extend(_argument(mapping[key], as_json).split(" "))
EDIT
