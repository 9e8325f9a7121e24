# Numbers are read in the form that computes most quickly.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.decoder <<'EDIT'
        array: numpy.ndarray[Any, Any] = np.array(value, dtype=dtype)
=======
        array: numpy.ndarray[Any, Any] = np.array(value, dtype=dtype or "int64")
EDIT
