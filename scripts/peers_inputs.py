"""What scripts/peers_gpu.py measures: shapes, inputs, and a recurrence in float64 that results are held against."""
import torch
import triton
import triton.language as tl

BF16, SEED = torch.bfloat16, 1234
DELTA = dict(K=128, V=128)
# In order of importance when the time ends early. `fla`: worth its compilation where FlashInfer has a kernel.
SHAPES = [
    dict(id="gdn_b8_t4096_h16", op="gdn", B=8, T=4096, H=16, fla=True, **DELTA),
    dict(id="gdn_b1_t32768_h16", op="gdn", B=1, T=32768, H=16, fla=True, **DELTA),
    dict(id="deltanet_b1_t32768_h16", op="deltanet", B=1, T=32768, H=16, fla=True, **DELTA),
    dict(id="gdn_b1_t32768_hk16_hv32", op="gdn", B=1, T=32768, H=16, HV=32, **DELTA),
    dict(id="gdn_b1_t131072_h8", op="gdn", B=1, T=131072, H=8, **DELTA),
    dict(id="dp2_b1_t32768_h8", op="deltaproduct", nh=2, beta_max=2, B=1, T=32768, H=8, fla=True, **DELTA),
    dict(id="dp2g_b1_t32768_h8", op="deltaproduct", nh=2, gated=True, beta_max=2, B=1, T=32768, H=8, **DELTA),
    dict(id="dp3_b1_t32768_h8", op="deltaproduct", nh=3, beta_max=2, B=1, T=32768, H=8, fla=True, **DELTA),
    dict(id="kda_b1_t8192_h64", op="kda", B=1, T=8192, H=64, fla=True, **DELTA),
    dict(id="ssd_b1_t32768_h128_p64", op="simple_gla", B=1, T=32768, H=128, K=128, V=64, fla=True),
    dict(id="rwkv7_b8_t16384_h64_d64", op="rwkv7", B=8, T=16384, H=64, K=64, V=64, fla=True),
    dict(id="gdn_b1_t32768_h6_k256_v512", op="gdn", B=1, T=32768, H=6, K=256, V=512, fla=True),
    dict(id="kda_b1_t32768_h16", op="kda", B=1, T=32768, H=16, fla=True, **DELTA),
    dict(id="dp3g_b1_t32768_h8", op="deltaproduct", nh=3, gated=True, beta_max=2, B=1, T=32768, H=8, **DELTA),
]


def gated(s):
    return s.get("gated", s["op"] in ("gdn", "simple_gla"))


# Inputs: unit keys and queries, gates with the constants of trained ones, every fourth head close to no decay ------

def randn(gen, *shape, unit=False, scale=1.0):
    """Normal numbers, made in slabs of tokens so that no whole float32 tensor is needed."""
    out = torch.empty(shape, dtype=BF16, device=gen.device)
    step = max(1, (1 << 26) // (shape[2] * shape[3]))
    for b in range(shape[0]):
        for t in range(0, shape[1], step):
            x = torch.randn(min(step, shape[1] - t), *shape[2:], generator=gen, device=gen.device)
            out[b, t:t + step] = torch.nn.functional.normalize(x, dim=-1) if unit else scale * x
    return out


def gates(gen, B, T, H, K=None):
    """-rate softplus(x + bias); per channel (K) never below -4.9, the bound that FLA's faster kernel asks for."""
    wide = (H, K or 1)
    rate = torch.linspace(1, 16, H, device=gen.device)[:, None]
    dt = torch.exp(torch.empty(wide, device=gen.device).uniform_(-6.9, -2.3, generator=gen))
    bias = dt + torch.log(-torch.expm1(-dt))
    out = torch.empty(B, T, *wide, dtype=BF16 if K else torch.float32, device=gen.device)
    step = max(1, (1 << 26) // (wide[0] * wide[1]))
    for b in range(B):
        for t in range(0, T, step):
            x = 0.5 * torch.randn(min(step, T - t), *wide, generator=gen, device=gen.device)
            g = -rate * torch.nn.functional.softplus(x + bias)
            g[:, 3::4] *= 1e-4
            out[b, t:t + step] = g.clamp(-4.9 if K else None, -1e-6)
    return out if K else out[..., 0].contiguous()


def make_inputs(s, device):
    gen = torch.Generator(device).manual_seed(SEED)
    B, T, H, K, V, n = s["B"], s["T"], s["H"], s["K"], s["V"], s.get("nh", 1)
    HV = s.get("HV", H)
    if s["op"] == "rwkv7":
        key = randn(gen, B, T, H, K, unit=True)
        w = -0.6065306597126334 * torch.sigmoid(randn(gen, B, T, H, K) - 2)
        w[:, :, 3::4] *= 1e-3
        return dict(q=randn(gen, B, T, H, K, scale=0.5), k=randn(gen, B, T, H, K, scale=0.5),
                    v=randn(gen, B, T, H, V), a=-key, b=key * torch.sigmoid(randn(gen, B, T, H, K)),
                    g=w.clamp_(min=-0.6035))  # above FLA's bound after rounding, too
    if s["op"] == "simple_gla":
        return dict(q=randn(gen, B, T, H, K), k=randn(gen, B, T, H, K, scale=K**-0.5), v=randn(gen, B, T, HV, V),
                    g=gates(gen, B, T, HV))
    return dict(q=randn(gen, B, T, H, K, unit=True), k=randn(gen, B, T * n, H, K, unit=True),
                v=randn(gen, B, T * n, HV, V),
                beta=s.get("beta_max", 1) * torch.sigmoid(torch.randn(B, T * n, HV, generator=gen, device=device)),
                g=gates(gen, B, T, HV, K) if s["op"] == "kda" else gates(gen, B, T, HV) if gated(s) else None)


# The recurrence in float64 -----------------------------------------------------------------------------------------

@triton.jit
def walk_f64(q, k, v, g, beta, a, b, out, state, T, n: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
             COLUMNS: tl.constexpr, ERASE: tl.constexpr, GATE: tl.constexpr):
    """A program walks the tokens of one head for COLUMNS values. ERASE 0 nothing, 1 the key, 2 the pair a, b; GATE 0
    none, 1 a number for the head, 2 one for each channel (natural logarithms)."""
    head = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, K)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    S = tl.zeros([K, COLUMNS], tl.float64)
    for t in range(T):
        x = head * T + t
        if ERASE == 2:
            lost = tl.sum(S * tl.load(a + x * K + i)[:, None], 0)
        if GATE == 1:
            S *= tl.exp(tl.load(g + x))
        if GATE == 2:
            S *= tl.exp(tl.load(g + x * K + i))[:, None]
        for m in range(n):
            y = x * n + m
            key = tl.load(k + y * K + i)
            value = tl.load(v + y * V + j)
            if ERASE == 1:
                value = tl.load(beta + y) * (value - tl.sum(S * key[:, None], 0))
            S += key[:, None] * value[None, :]
        if ERASE == 2:
            S += tl.load(b + x * K + i)[:, None] * lost[None, :]
        tl.store(out + x * V + j, tl.sum(S * tl.load(q + x * K + i)[:, None], 0))
    tl.store(state + (head * K + i[:, None]) * V + j[None, :], S)


def reference(s, x):
    """(heads, outputs, states) of three (row, value head) pairs."""
    B, T, H, K, V, n = s["B"], s["T"], s["H"], s["K"], s["V"], s.get("nh", 1)
    HV = s.get("HV", H)
    heads = list(dict.fromkeys([(0, min(3, HV - 1)), (B - 1, HV - 1), (0, HV // 2)]))  # 3: one that hardly forgets

    def pick(name, group=1):
        t = x.get(name)
        return None if t is None else torch.stack([t[b, :, h // group] for b, h in heads]).double().contiguous()

    q, k, v = pick("q", HV // H), pick("k", HV // H), pick("v")
    g, beta, a, b = pick("g"), pick("beta"), pick("a"), pick("b")
    q = q * (1.0 if s["op"] == "rwkv7" else K**-0.5)
    out = torch.empty(len(heads), T, V, dtype=torch.float64, device=q.device)
    state = torch.empty(len(heads), K, V, dtype=torch.float64, device=q.device)
    columns = 16 if V % 16 == 0 else V
    erase = 2 if a is not None else 1 if beta is not None else 0
    some = lambda t: q if t is None else t
    walk_f64[(len(heads), V // columns)](q, k, v, some(g), some(beta), some(a), some(b), out, state, T, n=n, K=K, V=V,
                                         COLUMNS=columns, ERASE=erase,
                                         GATE=0 if g is None else 2 if g.dim() == 3 else 1)
    return heads, out, state


def errors(ref, out, state, transposed):
    heads, want, S = ref
    got = torch.stack([out[b, :, h] for b, h in heads]).double()
    e = dict(rel_l2=float((got - want).norm() / want.norm()), finite=bool(torch.isfinite(out).all()),
             tokens=want.shape[1], heads=[list(h) for h in heads])
    if state is not None:
        end = torch.stack([state[b, h] for b, h in heads]).double()
        e["state_rel_l2"] = float(((end.mT if transposed else end) - S).norm() / S.norm())
    return e
