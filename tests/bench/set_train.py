#!/usr/bin/python3
"""An optimisation step of the set model: PyTorch and set_train_window on the
same batch, one thread each, in turns.

    set_train.py PROTOTYPE_DIRECTORY SET_PROGRAM

SET_PROGRAM is tests/bench/set; needs numpy, scipy and torch.
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, sys.argv[1])
import numpy as np  # noqa: E402
import torch  # noqa: E402
import setssm  # noqa: E402

torch.set_num_threads(1)


def save(path, arrays):
    header, data, at = {}, b"", 0
    for key, value in arrays.items():
        value = np.ascontiguousarray(value, np.float32)
        header[key] = {"dtype": "F32", "shape": list(value.shape),
                       "data_offsets": [at, at + value.nbytes]}
        data += value.tobytes()
        at += value.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def torch_ms(net, optimizer, batch):
    f, fn, a, s, y, ix = batch
    start = time.perf_counter()
    hw, hn, hg, _ = net.trunk(f, fn, ix)
    ll = net.loglik(net.heads(f, fn, a, s, hw, hn, hg, ix), y, ix)
    loss = -(ll[8:] / ix[4]).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.)
    optimizer.step()
    return 1e3 * (time.perf_counter() - start)


def main():
    pool = setssm.make_pool(20, 60, 3)
    batch = setssm.batch(pool, np.arange(8), 0, 48)
    f, fn, a, s, y, ix = batch
    net = setssm.SetSSM(32)
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    peer, own = [], []
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "batch.safetensors")
        save(path, dict(worker=f, node=fn, anchor=a, log_sd=s, y=y,
                        worker_node=ix[0], node_cluster=ix[1]))
        for _ in range(5):
            peer.append(torch_ms(net, optimizer, batch))
            text = subprocess.run([sys.argv[2], path], check=True,
                                  capture_output=True, text=True).stdout
            own.append(float(re.search(r"p50 ([\d.]+) us", text)[1]) / 1e3)
    print("%d workers, 48 steps: PyTorch %.1f ms, here %.1f ms, ratio %.1f" %
          (y.shape[1], np.median(peer), np.median(own),
           np.median(peer) / np.median(own)))


main()
