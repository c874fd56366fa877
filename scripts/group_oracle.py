#!/usr/bin/env python3
"""Reads random words with a trained group checkpoint in plain numpy, token by token, sharing nothing with
deltop: accuracy of blocks of 32 positions.

    scripts/group_oracle.py MODEL [WORDS] [f32|bf16]

bf16 rounds weights and every activation to bfloat16 and keeps states in float32, as a GPU run does. One
layer, no convolution, no gates (the layout of group-*). Minutes for 900 words of 512.
"""
import json
import struct
import sys

import numpy as np


def load(path):
    with open(path + "/model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {k: np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]], "<f4").reshape(v["shape"])
            for k, v in header.items() if k != "__metadata__"}


def to_bf16(x):
    u = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((u + ((u >> 16) & 1) + 0x7FFF) & 0xFFFF0000).view(np.float32)


def main():
    path = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 900
    rounding = to_bf16 if sys.argv[3:] == ["bf16"] else (lambda x: x.astype(np.float32))
    config = json.load(open(path + "/config.json"))
    group = json.load(open(path + "/group.json"))
    H, K, n_h = config["num_heads"], config["head_dim"], config["num_householder"]
    elements = [tuple(a) for a in group["elements"]]
    place = {a: i for i, a in enumerate(elements)}
    mul = np.array([[place[tuple(a[i] for i in b)] for b in elements] for a in elements])
    w = {k: rounding(v) for k, v in load(path).items()}

    def linear(x, name):
        return rounding(x @ w[name + ".weight"].T)

    def silu(x):
        return rounding(x / (1 + np.exp(-x)))

    def rms(x, name):
        return rounding(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w[name + ".weight"])

    def unit(x):
        return rounding(x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6))

    # Without a convolution, keys, values and queries depend on the token alone.
    at, mlp, n = "model.layers.0.attn.", "model.layers.0.mlp.", len(elements)
    embed = w["model.embeddings.weight"]
    x = rms(embed, "model.layers.0.attn_norm")
    q = unit(silu(linear(x, at + "q_proj")).reshape(n + 1, H, K))
    k = unit(silu(linear(x, at + "k_proj")).reshape(n + 1, n_h, H, K))
    v = silu(linear(x, at + "v_proj")).reshape(n + 1, n_h, H, -1)
    beta = rounding(2 / (1 + np.exp(-linear(x, at + "b_proj")))).reshape(n + 1, n_h, H)

    words = np.random.default_rng(7).integers(0, n, (count, 512))
    state = np.zeros((count, H, K, v.shape[-1]), np.float32)
    y = np.full(count, place[tuple(range(len(elements[0])))])
    right = []
    for t in range(-1, 512):
        token = np.full(count, group["bos"]) if t < 0 else words[:, t]
        for j in range(n_h):
            key = k[token, j]
            gap = v[token, j] - np.einsum("whk,whkv->whv", key, state)
            state += key[..., None] * (beta[token, j][..., None] * gap)[:, :, None]
        if t < 0:
            continue
        y = mul[token, y]
        o = rms(rounding(np.einsum("whk,whkv->whv", q[token], state) * K ** -0.5), at + "o_norm")
        h = rounding(embed[token] + linear(o.reshape(count, -1), at + "o_proj"))
        z = rms(h, "model.layers.0.mlp_norm")
        h = rounding(h + linear(rounding(silu(linear(z, mlp + "gate_proj")) * linear(z, mlp + "up_proj")),
                                mlp + "down_proj"))
        right.append((rms(h, "model.norm") @ w["lm_head.weight"].T).argmax(1) == y)
    print(" ".join("%.4f" % a for a in np.array(right).mean(1).reshape(-1, 32).mean(1)))


main()
