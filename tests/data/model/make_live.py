#!/usr/bin/env python3
"""Write live.txt: decisions of the modelling prototype's live stopping.

    make_live.py PROTOTYPE_DIR > live.txt

PROTOTYPE_DIR holds core.py, carry.py, setssm.py and their like, and
set-prototype.safetensors.  Needs torch, numpy and scipy.

A case is
    case NAME n N lambda log_low log_high lagging c elapsed
and then, a line each: node, mu, log_sd, log_w, node_shift, node_log_p,
node_tail, shift, log_p, tail, scale, durations, starts.
"""
import sys

import numpy as np

sys.path.insert(0, sys.argv[1])
import torch  # noqa: E402

import carry  # noqa: E402
import core  # noqa: E402
import scenarios  # noqa: E402
import setssm  # noqa: E402
import tensors  # noqa: E402
from scipy.special import ndtr  # noqa: E402


def load_net(path):
    net = setssm.SetSSM(32)
    net.load_state_dict({name: torch.tensor(t)
                         for name, t in tensors.load(path).items()})
    return net.eval()


def mixture_cdf(p, node, log_t):
    """Share of all workers done by log_t, atoms at their prior weights."""
    shift = p['b'][None, :, None] + p['d'][node][:, None, :]
    eg = np.concatenate([np.zeros((len(p['b']), 1)), p['eg']], 1)
    em = np.concatenate([np.zeros(p['d'].shape + (1,)), p['em']], 2)
    lw = p['lw'][:, None, None, :] + eg[None, :, None] + em[node][:, None]
    w = np.exp(lw - core.lse(lw, 3)[..., None])
    s = np.exp(p['ls'][:, None, None, :] + p['cs'][None, :, None, None])
    mu = p['mu'][:, None, None, :] + shift[..., None]
    done = (w * ndtr((log_t - mu) / s)).sum(3)
    prior = np.exp(p['lg'][None, :, None] + p['lm'][node][:, None, :])
    return (done * prior).sum((1, 2)).mean()


def quantile(p, node, q):
    lo, hi = -12., 12.
    for _ in range(60):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if mixture_cdf(p, node, mid) < q else (lo, mid)
    return float(np.float32((lo + hi) / 2))


def pool(lo, hi):
    """101 numbers whose 25 % and 99 % quantiles are those given."""
    return np.exp(np.r_[np.full(51, lo), np.full(50, hi)])


def single(p):
    return {k: v.astype('f4').astype('f8') for k, v in p.items()}


def line(v, out):
    flat = np.asarray(v, 'f8').ravel()
    out.write(' '.join('%.9g' % a for a in flat) + '\n')


def write(out, name, p, node, x, start, lam, lo, hi, c, elapsed):
    out.write('case %s %d %d %.17g %.9g %.9g %d %d %.17g\n' % (
        name, len(x), node.max() + 1, lam, lo, hi, int((start > 0).sum()), c,
        elapsed))
    line(node, out)
    for key in ('mu', 'ls', 'lw', 'd', 'lm', 'em', 'b', 'lg', 'eg', 'cs'):
        line(p[key], out)
    for v in (x, start):
        out.write(' '.join('%.17g' % a for a in v) + '\n')


def main():
    net = load_net(sys.argv[1] + '/set-prototype.safetensors')
    out = sys.stdout
    rng = np.random.default_rng(1)
    for n, names in ((16, ('iid', 'regimes', 'hiccup', 'bimodal', 'mix')),
                     (158, ('regimes', 'bimodal', 'mix'))):
        for name in names:
            x, node, u = scenarios.gen(name, n, 4, T=60, seed=77)
            pr = core.Net(net, node)
            o = core.OV * np.median(x[:30])
            for t in range(60):
                got = pr.predict(u[t], samples=True)
                if t in ((30, 42, 57) if n == 16 else (37,)):
                    p = single(got['mix'])
                    lam = core.oracles(np.sort(x[:t], 1), o)['static']
                    lo, hi = quantile(p, node, .25), quantile(p, node, .99)
                    start = np.zeros(n)
                    c, el = core.online(p, node, x[t], lam, o, pool(lo, hi), n)
                    write(out, name, p, node, x[t], start, lam, lo, hi, c, el)
                    # own clocks: some workers start late, when is known
                    late = rng.random(n) < .2
                    start[late] = rng.uniform(.02, .5, late.sum())
                    pts = np.tile(start[:, None], (1, carry.NP))
                    none = np.zeros((n, carry.NP), bool)
                    T, _ = carry.online2(
                        p, node, start, x[t], np.zeros(n, bool), pts, none,
                        lam, o, pool(lo, hi), None, .1, None, None)
                    c = int((start + x[t] <= T).sum())
                    write(out, name + '-lag', p, node, x[t], start, lam, lo,
                          hi, c, T)
                pr.update(np.log(x[t]), np.full(n, 2))


main()
