# A value that is no JSON is made JSON.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py configs <<'EDIT'
    except (ValueError, RecursionError):
        return value
=======
    except (ValueError, RecursionError):
        return json.dumps(value)
EDIT
