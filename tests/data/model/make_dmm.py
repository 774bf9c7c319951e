#!/usr/bin/python3
"""make_dmm.py LAB OUT: the deep Markov model's fixture, from the prototype in
the folder LAB: parameters, a batch, its noise, ELBO terms and gradients, as
text: a line of names, then numbers."""
import os
import sys

sys.path.insert(0, sys.argv[1])
os.chdir(sys.argv[1])
import torch
import dmm

N, L, B, BETA = 5, 6, 3, 0.7
torch.manual_seed(11)
net = dmm.DMM(N, torch.zeros(N), torch.tensor(1.0))
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.round((p + torch.randn_like(p) * 0.1) * 1e4) / 1e4)
y = torch.randn(L, B, N)
noise = torch.randn(L, B, net.Z)
draws = iter(noise)
real = torch.randn_like
dmm.torch.randn_like = lambda t: next(draws)
loss = net.elbo(y, BETA)
loss.backward()
draws = iter(noise)
with torch.no_grad():
    l0 = net.elbo(y, 0.0).item()
draws = iter(noise)
with torch.no_grad():
    l1 = net.elbo(y, 1.0).item()
log_lik = -l0 * L * N
kl = (l1 - l0) * L * N


def put(f, name, t, form="%.7g"):
    a = t.detach().reshape(-1).tolist()
    f.write("%s %d\n%s\n" % (name, len(a), " ".join(form % v for v in a)))


with open(sys.argv[2], "w") as f:
    f.write("dims %d %d %d\n" % (N, L, B))
    f.write("terms 4\n%.9g %.9g %.9g %.9g\n" % (BETA, log_lik, kl, loss.item()))
    put(f, "y", y, "%.9g")
    put(f, "noise", noise, "%.9g")
    for name, p in net.named_parameters():
        put(f, name, p, "%.5g")
        put(f, "grad." + name, p.grad)
