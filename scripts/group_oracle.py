#!/usr/bin/env python3
"""Reads random words with a trained group checkpoint in plain numpy, sharing nothing with deltop: accuracy of
blocks of 32 positions (the last line).

    scripts/group_oracle.py MODEL [WORDS] [f32|bf16|autocast] [SEED]

f32 and bf16 go token by token; bf16 rounds weights and every activation to bfloat16 and keeps states in float32,
as a GPU run of deltop does. autocast does what flash-linear-attention does under torch.autocast in bfloat16: the
inputs, weights and outputs of linear layers, q, k, v and beta are bfloat16, the residual stream and its norms
float32, and the recurrence goes in chunks of 64 micro-steps, whose inverse, w, u and new values are rounded to
bfloat16 while the state is carried in float32 (read from the sources of fla 0.6.0). One layer, no convolution, no gates (the layout of group-*).
Minutes for 900 words of 512.
"""
import json
import struct
import sys

import numpy as np

CHUNK, GROUP = 64, 50


def load(path):
    with open(path + "/model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {k: np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]], "<f4").reshape(v["shape"])
            for k, v in header.items() if k != "__metadata__"}


def to_bf16(x):
    u = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((u + ((u >> 16) & 1) + 0x7FFF) & 0xFFFF0000).view(np.float32)


def to_f32(x):
    return np.asarray(x, dtype=np.float32)


def by_steps(q, k, v, beta, n_h, rounding):
    """q [w, H, T, K]; k, v [w, H, T n_h, ..]; beta [w, H, T n_h] -> read-outs [w, H, T, V]"""
    state = np.zeros(k.shape[:2] + (k.shape[-1], v.shape[-1]), np.float32)
    out = np.empty(q.shape[:3] + (v.shape[-1],), np.float32)
    for m in range(k.shape[2]):
        gap = v[:, :, m] - np.einsum("whk,whkv->whv", k[:, :, m], state)
        state += k[:, :, m, :, None] * (beta[:, :, m, None] * gap)[:, :, None]
        if m % n_h == n_h - 1:
            out[:, :, m // n_h] = rounding(np.einsum("whk,whkv->whv", q[:, :, m // n_h], state) * q.shape[-1] ** -0.5)
    return out


def by_chunks(q, k, v, beta, n_h, rounding):
    """The same as FLA's chunk_gated_delta_product computes it: the WY form of 64 micro-steps, read-outs of 64
    tokens from the state before them; every stored number rounded, sums and the state in float32."""
    state = np.zeros(k.shape[:2] + (k.shape[-1], v.shape[-1]), np.float32)
    out = np.empty(q.shape[:3] + (v.shape[-1],), np.float32)
    for first in range(0, q.shape[2], CHUNK):
        before, new = rounding(state), []
        Q, all_k = q[:, :, first:first + CHUNK], k[:, :, n_h * first:n_h * (first + CHUNK)]
        for at in range(n_h * first, n_h * (first + Q.shape[2]), CHUNK):
            end = min(at + CHUNK, n_h * (first + Q.shape[2]))
            K, V, b = k[:, :, at:end], v[:, :, at:end], beta[:, :, at:end, None]
            A = np.tril(b * (K @ K.swapaxes(-1, -2)), -1)
            inverse = rounding(np.linalg.inv(np.eye(end - at) + A).astype(np.float32))
            w, u = rounding(inverse @ rounding(K * b)), rounding(inverse @ rounding(V * b))
            new.append(rounding(u - w @ rounding(state)))
            state = state + K.swapaxes(-1, -2) @ new[-1]
        token, step = np.arange(Q.shape[2])[:, None], np.arange(all_k.shape[2])
        scores = np.where(step // n_h <= token, Q @ all_k.swapaxes(-1, -2), 0)
        total = Q @ before + rounding(scores) @ np.concatenate(new, 2)
        out[:, :, first:first + CHUNK] = rounding(total * np.float32(q.shape[-1] ** -0.5))
    return out


def main():
    path = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 900
    mode = sys.argv[3] if len(sys.argv) > 3 else "f32"
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 7
    rounding = to_f32 if mode == "f32" else to_bf16
    stream = to_bf16 if mode == "bf16" else to_f32  # the residual stream and its norms
    config = json.load(open(path + "/config.json"))
    group = json.load(open(path + "/group.json"))
    H, K, n_h = config["num_heads"], config["head_dim"], config["num_householder"]
    elements = [tuple(a) for a in group["elements"]]
    place = {a: i for i, a in enumerate(elements)}
    mul = np.array([[place[tuple(a[i] for i in b)] for b in elements] for a in elements])
    weights = load(path)
    w = {k: stream(v) for k, v in weights.items()}

    def linear(x, name):
        return rounding(rounding(x) @ rounding(weights[name + ".weight"]).T)

    def silu(x):
        return rounding(x / (1 + np.exp(-x)))

    def rms(x, name, to=stream):
        return to(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w[name + ".weight"])

    def unit(x):
        return rounding(x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6))

    # Without a convolution, keys, values and queries depend on the token alone.
    at, mlp, n = "model.layers.0.attn.", "model.layers.0.mlp.", len(elements)
    embed = w["model.embeddings.weight"]
    x = rms(embed, "model.layers.0.attn_norm")
    q = unit(silu(linear(x, at + "q_proj")).reshape(n + 1, H, K))
    k = unit(silu(linear(x, at + "k_proj")).reshape(n + 1, n_h, H, K))
    v = silu(linear(x, at + "v_proj")).reshape(n + 1, n_h, H, -1)
    beta = rounding(2 * rounding(1 / (1 + np.exp(-linear(x, at + "b_proj"))))).reshape(n + 1, n_h, H)

    words = np.random.default_rng(seed).integers(0, n, (count, 512))
    right, last = np.zeros(512), []  # last: of each word, over the last block
    for first in range(0, count, GROUP):
        part = words[first:first + GROUP]
        y = np.empty_like(part)
        now = np.full(len(part), place[tuple(range(len(elements[0])))])
        for t in range(512):
            now = mul[part[:, t], now]
            y[:, t] = now
        token = np.concatenate([np.full((len(part), 1), group["bos"]), part], 1)
        rows = lambda a: np.moveaxis(a[token], 3, 1).reshape(len(part), H, -1, a.shape[-1])
        read = by_chunks if mode == "autocast" else by_steps
        o = read(np.moveaxis(q[token], 2, 1), rows(k), rows(v),
                 np.moveaxis(beta[token], 3, 1).reshape(len(part), H, -1), n_h, rounding)
        o = rms(np.moveaxis(o, 1, 2), at + "o_norm", rounding)
        h = stream(embed[token] + linear(o.reshape(o.shape[:2] + (-1,)), at + "o_proj"))
        z = rms(h, "model.layers.0.mlp_norm")
        gated = rounding(silu(linear(z, mlp + "gate_proj")) * linear(z, mlp + "up_proj"))
        h = stream(h + linear(gated, mlp + "down_proj"))
        answers = linear(rms(h, "model.norm"), "lm_head")[:, 1:].argmax(-1)
        right += (answers == y).sum(0)
        last.extend((answers == y)[:, -32:].mean(1))
    print("a run of 1024 words has a standard error of %.4f in the last block" % (np.std(last) / 32))
    print(" ".join("%.4f" % a for a in (right / count).reshape(-1, 32).mean(1)))


main()
