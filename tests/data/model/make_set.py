#!/usr/bin/python3
"""Write the fixtures of tests/unit/set_parity.c and set_gradient.c with
PyTorch, from a prototype of the model:

    make_set.py PROTOTYPE_DIRECTORY OUT_DIRECTORY

PROTOTYPE_DIRECTORY holds feats.py, setssm.py, scenarios.py and
set-prototype.safetensors.  Needs numpy, scipy and torch.

    set-prototype.safetensors  the weights
    set-steps.safetensors      a run of STEPS steps of 21 workers on 5 nodes:
                               observations, features, filter state, outputs,
                               log-likelihood in float64 and moments
    set-window.safetensors     a window of T steps of 3 clusters, its loss and
                               the gradient of every parameter
"""
import os
import shutil
import sys

import numpy as np
import torch

sys.path.insert(0, sys.argv[1])
sys.argv, (source, out) = sys.argv[:1], sys.argv[1:3]
from feats import Filter  # noqa: E402
import setssm  # noqa: E402
import tensors  # noqa: E402

STEPS, T, BURN = 36, 14, 8


def save(name, arrays):
    tensors.save(os.path.join(out, name), arrays)


def network(dtype):
    net = setssm.SetSSM(32)
    weights = tensors.load(source + "/set-prototype.safetensors")
    net.load_state_dict({k: torch.tensor(v) for k, v in weights.items()})
    return net.to(dtype)


def durations(rng, node, steps):
    """Noise, a node that turns slow, stragglers; log durations."""
    n, nodes = len(node), node.max() + 1
    y = 1.3 + .1 * rng.normal(size=n) + .05 * rng.normal(size=(steps, n))
    y += .1 * rng.normal(size=(steps, 1))
    y[steps // 2:, node == nodes - 1] += .8
    y += 1.2 * (rng.random((steps, n)) < .04)
    return y.astype("f4").astype("f8")


def observe(rng, y, t):
    """Every third step the slow are censored, every fifth estimated."""
    y, status = y.copy(), np.full(len(y), 2)
    if t > 2 and t % 5 == 0:
        late = y > np.quantile(y, .7)
        y[late] += .1 * rng.normal(size=late.sum())
        status[late] = 1
    elif t > 2 and t % 3 == 0:
        bound = np.quantile(y, .6)
        status[y > bound] = 0
        y[y > bound] = bound
    return y.astype("f4").astype("f8"), status


def moments(p, node):
    """Mean and standard deviation of each worker's log duration."""
    g = {k: v[0].numpy() for k, v in p.items()}
    lw = (g["lw"][:, None, None, :] + g["eg"][0][None, :, None, :] +
          g["em"][node][:, None])
    w = np.exp(lw - lw.max(-1, keepdims=True))
    w /= w.sum(-1, keepdims=True)
    w *= np.exp(g["lg"][0])[None, :, None, None]
    w *= np.exp(g["lm"])[node][:, None, :, None]
    mean = (g["mu"][:, None, None, :] + g["b"][0][None, :, None, None] +
            g["d"][node][:, None, :, None])
    var = np.exp(2 * (g["ls"][:, None, None, :] +
                      g["cs"][0][None, :, None, None])) + 0 * mean
    m = (w * mean).sum((1, 2, 3))
    v = (w * (var + mean**2)).sum((1, 2, 3)) - m**2
    return m, np.sqrt(v)


def steps():
    rng = np.random.default_rng(11)
    node = np.sort(np.concatenate([np.arange(5), rng.integers(0, 5, 16)]))
    y = durations(rng, node, STEPS)
    u = rng.random((STEPS, 5, 3)).astype("f4").astype("f8")
    net = network(torch.float64)
    torch.set_default_dtype(torch.float64)
    ix = setssm.mkix(node, np.zeros(5, int), 1)
    ix = (ix[0], ix[1]) + tuple(v.double() for v in ix[2:])
    flt, state = Filter(node, np.zeros(5, int), 1), None
    rows = {}

    def keep(key, value):
        rows.setdefault(key, []).append(np.array(value))

    for t in range(STEPS):
        f, fn, a, s = flt.feats(u[t], np.ones(5))
        with torch.no_grad():
            tensors = [torch.from_numpy(v)[None].double()
                       for v in (f, fn, a, s)]
            hw, hn, hg, state = net.trunk(tensors[0], tensors[1], ix, state)
            p = net.heads(*tensors, hw, hn, hg, ix)
            ll = net.loglik(p, torch.from_numpy(y[t])[None], ix)
        seen, status = observe(rng, y[t], t)
        for key, value in dict(
                telemetry=u[t], y=y[t], seen=seen, status=status,
                worker=f, node=fn, anchor=a, log_sd=s,
                hw=hw[0], hn=hn[0], hg=hg[0], loglik=ll[0].numpy()).items():
            keep(key, value)
        for key, value in p.items():
            keep("p." + key, value[0].numpy())
        mean, sd = moments(p, node)
        keep("mean", mean)
        keep("sd", sd)
        flt.update(seen, status)
        for key in ("eS", "eF", "v", "y", "mk", "age"):
            keep("filter." + key, getattr(flt, key))
    rows = {k: np.stack(v) for k, v in rows.items()}
    rows["worker_node"] = node
    save("set-steps.safetensors", rows)
    torch.set_default_dtype(torch.float32)


def window():
    rng = np.random.default_rng(12)
    sizes = [(9, 3), (16, 4), (5, 1)]
    node, cluster, ys, base = [], [], [], 0
    for b, (n, nodes) in enumerate(sizes):
        nd = np.sort(np.concatenate([np.arange(nodes),
                                     rng.integers(0, nodes, n - nodes)]))
        ys.append(durations(rng, nd, T))
        node.append(nd + base)
        cluster += [b] * nodes
        base += nodes
    node, cluster, y = (np.concatenate(node), np.array(cluster),
                        np.concatenate(ys, 1))
    u = rng.random((T, base, 3))
    flt = Filter(node, cluster, len(sizes))
    feats = []
    for t in range(T):
        feats.append(flt.feats(u[t], np.ones(base)))
        flt.update(*observe(rng, y[t], t))
    f, fn, a, s = (np.stack(v) for v in zip(*feats))
    result = {}
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        net = network(dtype)
        ix = setssm.mkix(node, cluster, len(sizes))
        ix = ix[:2] + tuple(v.to(dtype) for v in ix[2:])
        tf, tfn, ta, ts, ty = (torch.from_numpy(v).to(dtype)
                               for v in (f, fn, a, s, y))
        hw, hn, hg, _ = net.trunk(tf, tfn, ix)
        p = net.heads(tf, tfn, ta, ts, hw, hn, hg, ix)
        ll = net.loglik(p, ty, ix)
        loss = -(ll[BURN:] / ix[4]).mean()
        loss.backward()
        name = "grad32." if dtype == torch.float32 else "grad."
        for key, value in net.named_parameters():
            result[name + key] = value.grad.numpy()
        result[name + "loss"] = [loss.item()]
    result.update(worker=f, node=fn, anchor=a, log_sd=s, y=y,
                  worker_node=node, node_cluster=cluster, burn_in=[BURN])
    save("set-window.safetensors", result)


shutil.copy(source + "/set-prototype.safetensors", out)
steps()
window()
