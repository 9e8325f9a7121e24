"""Runs accelerate and records what it would send to SageMaker.

Arguments: `request FILE ARGUMENTS…` runs `accelerate ARGUMENTS…`, unmodified, and writes the CreateTrainingJob request
to FILE; `mended FILE ARGUMENTS…` does the same without the two faults that keep the newest versions from any job;
`load FILE` prints, as JSON, the configuration as accelerate's own loader understands it, or why it does not.
"""

import json
import sys
from pathlib import Path

import botocore.client

real = botocore.client.BaseClient._make_api_call


def record(out):
    def call(self, operation, parameters):
        if operation == "CreateTrainingJob":
            Path(out).write_text(json.dumps(parameters))
            sys.exit(0)
        if operation == "GetCallerIdentity":  # the SDK names STS's own address itself
            return {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/somebody"}
        return real(self, operation, parameters)

    botocore.client.BaseClient._make_api_call = call


def load(file):
    from accelerate.commands.config.config_args import load_config_from_file

    try:
        return load_config_from_file(file).to_dict()
    except Exception as error:
        return {"error": str(error)}


def mend():
    from accelerate.commands.config.config_args import SageMakerConfig

    # Since 0.34 the loader adds num_processes to every configuration with NO, then refuses it as unknown.
    process = SageMakerConfig.process_config

    def without_processes(given):
        known = process(given)
        known.pop("num_processes", None)
        return known

    SageMakerConfig.process_config = staticmethod(without_processes)
    # Since 1.10 the launcher reads parallelism_config, which only ClusterConfig has. Empty is what "none" is there.
    SageMakerConfig.parallelism_config = {}


kind, file, *rest = sys.argv[1:]
if kind == "load":
    print(json.dumps(load(file)))
else:
    from accelerate.commands.accelerate_cli import main

    if kind == "mended":
        mend()
    record(file)
    sys.argv[1:] = rest
    main()
