"""Writes ewma.txt: the prototype's moving averages on observations of all kinds.

usage: make_ewma.py LAB > ewma.txt     LAB: folder of core.py

A line a step: log durations or bounds of 6 workers, their status (0 censored, 1
progress, 2 exact), then the number of rows that the next step is predicted with
and, per worker, the mean over these rows of the log prediction.
"""
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import core

print("# " + __doc__.splitlines()[0])
rng = np.random.default_rng(3)
n = 6
model = core.EwmaBoot(np.arange(n))
for t in range(90):
    level = .5 * (t % 40 > 25) + .7 * (np.arange(n) == t // 20)
    y = np.float32(level + rng.normal(0, .05 + .2 * (t > 60), n))
    status = rng.choice([0, 1, 2], n, p=[.2, .2, .6])
    if t < 2 or t % 7 == 0:
        status[:] = 2
    y[status == 0] -= np.float32(rng.exponential(.2))
    model.update(y.astype(float), status)
    p = model.predict()
    rows = 0 if p is None else len(p["X"])
    mean = np.zeros(n) if p is None else np.log(p["X"]).mean(0)
    print(*("%.9g" % v for v in y), *status, rows, *("%.8g" % v for v in mean))
