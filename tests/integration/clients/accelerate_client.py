"""Runs accelerate, unmodified, and records what it would send to SageMaker.

Arguments: `request FILE ARGUMENTS…` runs `accelerate ARGUMENTS…` and writes the CreateTrainingJob request to FILE;
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


kind, file, *rest = sys.argv[1:]
if kind == "load":
    print(json.dumps(load(file)))
else:
    from accelerate.commands.accelerate_cli import main

    record(file)
    sys.argv[1:] = rest
    main()
