"""Media types that requests and answers come in."""

JSON = "application/json"
CSV = "text/csv"
OCTET_STREAM = "application/octet-stream"
ANY = "*/*"
NPY = "application/x-npy"
NPZ = "application/x-npz"
UTF8_TYPES = [JSON, CSV]

JSON_LINES = "application/jsonlines"
EVENT_STREAM = "text/event-stream"
#: One JSON value a line has never had one registered name.
JSON_LINES_TYPES = (JSON_LINES, "application/x-jsonlines", "application/jsons")
