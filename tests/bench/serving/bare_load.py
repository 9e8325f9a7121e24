"""What loading costs without a server: model_fn and one prediction in a plain process, which then says so."""

import sys

sys.path.insert(0, "/opt/ml/model/code")
import inference

model = inference.model_fn("/opt/ml/model")
data = inference.input_fn(sys.argv[1].encode(), "application/json")
print(inference.output_fn(inference.predict_fn(data, model), "application/json"), flush=True)
