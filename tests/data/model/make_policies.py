"""Writes policies.txt: the prototype's scores of simple policies.

usage: make_policies.py LAB TRACES > policies.txt     LAB: folder of core.py

A line a trace, scored after 20 steps: name, overhead, oracle's throughput, then
fractions of it: full, best static, last, rolling over 10 steps, ewma; the best
static count under carry-over, busy and 8 micro-batches (nan: not computed).
"""
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import carry
import core

print("# " + __doc__.splitlines()[0])
for name in ["pai-job1", "pai-job4", "bytedance-SE-dp32", "varbench-1024"]:
    x = np.loadtxt("%s/%s.csv" % (sys.argv[2], name), delimiter=",")
    n, t0 = x.shape[1], 20
    o = .02 * np.median(x[:t0])
    best = core.oracles(np.sort(x[t0:], 1), o)
    rate = lambda ct: ct[0].sum() / ct[1].sum()
    ewma = core.run_pred(core.EwmaBoot(np.arange(n)), x, None, np.arange(n), t0,
                         rules=("renew",), o=o)["renew"]
    row = [best["sync"], best["static"], rate(core.curve_policy(x, t0, o, 1)),
           rate(core.curve_policy(x, t0, o, 10)), rate(ewma)]
    row += [carry.statics(x, t0, o, mode, m).max() if n < 100 else np.nan
            for mode, m in (("busy", 0), ("poll8", 8))]
    print(name, "%.9g %.9g" % (o, best["long"]),
          *("%.7g" % (v / best["long"]) for v in row))
