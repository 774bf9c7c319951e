"""Tensors in safetensors files, as float32, for the scripts that write fixtures
and for the benchmarks against the prototype."""
import json
import struct

import numpy as np


def save(path, arrays):
    header, data, at = {}, b"", 0
    for key, value in arrays.items():
        value = np.ascontiguousarray(value, np.float32)
        header[key] = {"dtype": "F32", "shape": list(value.shape),
                       "data_offsets": [at, at + value.nbytes]}
        data += value.tobytes()
        at += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def load(path):
    with open(path, "rb") as f:
        raw = f.read()
    n, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + n])
    tensors = {}
    for key, t in header.items():
        if key != "__metadata__":
            a, b = t["data_offsets"]
            tensors[key] = np.frombuffer(
                raw[8 + n + a:8 + n + b], np.float32).reshape(t["shape"])
    return tensors
