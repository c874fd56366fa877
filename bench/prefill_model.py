#!/usr/bin/env python3
"""Writes the DeltaProduct 392M model (random bfloat16 weights) and random token ids that
bench/prefill.sh reads: prefill_model.py FOLDER"""
import json
import os
import struct
import sys

import numpy as np

HIDDEN, LAYERS, HEADS, DIM, STEPS, VOCAB, WIDE = 1024, 24, 8, 128, 2, 32000, 2816
TOKENS = 262144


def main(folder):
    rng = np.random.default_rng(0)
    os.makedirs(folder, exist_ok=True)
    config = dict(
        model_type="gated_deltaproduct", hidden_size=HIDDEN, num_hidden_layers=LAYERS,
        num_heads=HEADS, head_dim=DIM, expand_v=1.0, num_householder=STEPS, use_output_gate=False,
        use_forget_gate=False, use_short_conv=True, conv_size=4, allow_neg_eigval=True,
        vocab_size=VOCAB, tie_word_embeddings=True, intermediate_size=WIDE, norm_eps=1e-6,
        hidden_act="swish", max_position_embeddings=4096, bos_token_id=1, eos_token_id=2)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    key = HEADS * DIM
    shapes = [("model.embeddings.weight", (VOCAB, HIDDEN), 0.02), ("model.norm.weight", (HIDDEN,), 0)]
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        shapes += [
            (at + "attn_norm.weight", (HIDDEN,), 0), (at + "mlp_norm.weight", (HIDDEN,), 0),
            (at + "attn.q_proj.weight", (key, HIDDEN), 0.02),
            (at + "attn.k_proj.weight", (STEPS * key, HIDDEN), 0.02),
            (at + "attn.v_proj.weight", (STEPS * key, HIDDEN), 0.02),
            (at + "attn.b_proj.weight", (STEPS * HEADS, HIDDEN), 0.02),
            (at + "attn.q_conv1d.weight", (key, 1, 4), 0.3),
            (at + "attn.k_conv1d.weight", (STEPS * key, 1, 4), 0.3),
            (at + "attn.v_conv1d.weight", (STEPS * key, 1, 4), 0.3),
            (at + "attn.o_norm.weight", (DIM,), 0), (at + "attn.o_proj.weight", (HIDDEN, key), 0.02),
            (at + "mlp.gate_proj.weight", (WIDE, HIDDEN), 0.02),
            (at + "mlp.up_proj.weight", (WIDE, HIDDEN), 0.02),
            (at + "mlp.down_proj.weight", (HIDDEN, WIDE), 0.02)]
    header, offset = {}, 0
    for name, shape, _ in shapes:
        size = 2 * int(np.prod(shape))
        header[name] = dict(dtype="BF16", shape=shape, data_offsets=[offset, offset + size])
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, shape, std in shapes:
            x = rng.standard_normal(shape, dtype=np.float32) * std if std else np.ones(shape, np.float32)
            # the nearest bfloat16, as good as
            f.write(((x.view(np.uint32) + 0x8000) >> 16).astype(np.uint16).tobytes())
    np.save(os.path.join(folder, "ids.npy"), rng.integers(0, VOCAB, TOKENS).astype(np.int32))


main(sys.argv[1])
