"""Writes scenarios.txt: figures of the prototype's synthetic clusters.

usage: make_scenarios.py LAB > scenarios.txt     LAB: folder of scenarios.py

A line a scenario (n = 158, T = 300): name, then mean and standard deviation
over 24 seeds of: mean duration; quantiles .1, .5, .9, .99 of the durations over
the trace's median; median and .9 quantile of max / median of a step; lag-1
autocorrelation of the steps' log medians, NaN as 0; full and best static
throughput as fractions of the oracle's.
"""
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import core
import scenarios


def figures(x):
    s = np.sort(x, 1)
    m = np.log(np.median(x, 1))
    ratio = s[:, -1] / np.median(x, 1)
    o = .02 * np.median(x[:10])
    best = core.oracles(s[10:], o)
    d = m - m.mean()
    return np.r_[x.mean(), np.quantile(x / np.median(x), [.1, .5, .9, .99]),
                 np.quantile(ratio, [.5, .9]),
                 (d[1:] * d[:-1]).sum() / (d * d).sum(),
                 best['sync'] / best['long'], best['static'] / best['long']]


print("# " + __doc__.splitlines()[0])
for name in scenarios.NAMED:
    f = np.array([figures(scenarios.gen(name, 158, 4, 300, 100 + seed)[0])
                  for seed in range(24)])
    print(name, *("%.5g %.5g" % v for v in zip(f.mean(0), f.std(0))))
