"""Runs one training job with ModelTrainer of the SageMaker SDK v3 in containers of this machine.

The argument is a JSON file with the fields of `sdk.Job`. Prints the containers' log; what the SDK raises stands in
the last line, on stderr.
"""

import json
import sys
from pathlib import Path

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode
from sagemaker.train.distributed import MPI, Torchrun
from sagemaker.train.model_trainer import Mode

job = json.loads(Path(sys.argv[1]).read_text())
launchers = {"torchrun": Torchrun, "mpi": MPI}
source = distributed = None
if job["entry"]:
    source = SourceCode(
        source_dir=job["source"],
        entry_script=job["entry"],
        requirements=job["requirements"] or None,
        command=job["command"] or None,
    )
if job["distribution"]:
    ((launcher, options),) = job["distribution"].items()
    distributed = launchers[launcher](**options)
trainer = ModelTrainer(
    training_mode=Mode.LOCAL_CONTAINER,
    training_image=job["image"],
    source_code=source,
    distributed=distributed,
    compute=Compute(instance_type="local_cpu", instance_count=job["hosts"]),
    hyperparameters=job["hyperparameters"],
    environment=job["environment"],
    local_container_root=job["root"],
)
inputs = [InputData(channel_name=name, data_source=folder) for name, folder in job["channels"].items()]
try:
    trainer.train(inputs)
except RuntimeError as error:
    sys.exit(f"raised {error}")
