# JSON lines under the name that most tools use.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.content_types <<'EDIT'
JSON_LINES_TYPES = (JSON_LINES, "application/x-jsonlines", "application/jsons")
=======
JSON_LINES_TYPES = ("application/x-ndjson", "application/x-jsonlines")
EDIT
