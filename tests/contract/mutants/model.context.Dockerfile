# A dictionary does for headers.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.context <<'EDIT'
        return self._request.headers.get(key) if self._request else None
=======
        return self.get_request_properties().get(key)
EDIT
