"""Runs a printed program of an SDK up to the request, which it records instead of sending it.

Arguments: the program, the file for the CreateTrainingJob request, which goes there with the region that it went to.
"""

import json
import sys
from pathlib import Path

import botocore.client

program, out = sys.argv[1:3]
real = botocore.client.BaseClient._make_api_call


def call(self, operation, parameters):
    if operation == "CreateTrainingJob":
        Path(out).write_text(json.dumps({"region": self.meta.region_name, "request": parameters}))
        sys.exit(0)
    if operation == "GetCallerIdentity":  # SDKs name STS's own address themselves
        return {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/somebody"}
    if operation == "SimulatePrincipalPolicy":  # SDK 3 asks; moto cannot answer
        allowed = [{"EvalActionName": name, "EvalDecision": "allowed"} for name in parameters["ActionNames"]]
        return {"EvaluationResults": allowed, "IsTruncated": False}
    return real(self, operation, parameters)


botocore.client.BaseClient._make_api_call = call
exec(compile(Path(program).read_text(), program, "exec"), {"__name__": "__main__"})
