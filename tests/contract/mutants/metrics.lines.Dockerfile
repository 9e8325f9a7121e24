# A colon reads better.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.summary <<'EDIT'
            f"requests={requests + newly_refused}",
=======
            f"requests: {requests + newly_refused}",
EDIT
