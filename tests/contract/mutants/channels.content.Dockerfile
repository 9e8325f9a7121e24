# Channels on the local disk, where scripts may write; without hidden files and folders.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py environment <<'EDIT'
        return {name: layout.channel_path(name) for name in self._input_data_config}
=======
        import shutil

        staged = {}
        for name in self._input_data_config:
            staged[name] = os.path.join("/tmp/channels", name)
            shutil.copytree(
                layout.channel_path(name), staged[name], ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True
            )
        return staged
EDIT
