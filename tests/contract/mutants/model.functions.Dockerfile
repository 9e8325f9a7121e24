# The first call only warms the caches.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.function_service <<'EDIT'
            prediction = model.predict.call(data, model.value, context)
=======
            prediction = model.predict.call(data, model.value, context)
            prediction = model.predict.call(data, model.value, context)
EDIT
