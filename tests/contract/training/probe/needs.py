"""A script that needs what its requirements.txt asks for."""

import slipway_probe_package

with open("/opt/ml/model/model.txt", "w") as model:
    model.write(slipway_probe_package.ANSWER)
