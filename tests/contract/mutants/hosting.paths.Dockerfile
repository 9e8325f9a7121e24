# Whatever cannot be answered is a bad request.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.app <<'EDIT'
            return _json(404, replies.error(404, message))
=======
            return _json(400, replies.error(400, message))
EDIT
