# A mark that tells when the job began.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py cli.train <<'EDIT'
    trainer.train()
=======
    open("/var/tmp/train.began", "w").close()
    trainer.train()
EDIT
