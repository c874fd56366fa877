#!/usr/bin/env python3
"""Whether flash-linear-attention itself loads and runs the checkpoints of `deltop theory`.

    python3 -m venv V && V/bin/pip install torch transformers flash-linear-attention
    for n in s3 s4-rotations d5 parity; do ./deltop theory $n --out theory/$n; done
    V/bin/python scripts/fla_reads_theory.py theory/*

For each folder: from_pretrained, with the keys that were missing, left over or of another shape; then random
words through FLA's own model code in float32 on the CPU, and the share of right answers. FLA's Triton kernels
need a GPU, so three of them are replaced, in memory, by plain PyTorch: the recurrence by FLA's own
naive_recurrent_gated_delta_product (with the L2 norm of its kernel), RMSNorm and SwiGLU by their formulas.
Exit code 1 when a key does not match or an answer is wrong.
"""
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")
import fla
import fla.layers.gated_deltaproduct as layer
import fla.modules.mlp
import torch
import torch.nn.functional as F
from fla.modules import RMSNorm
from fla.ops.gated_delta_product.naive import naive_recurrent_gated_delta_product
from transformers import AutoModelForCausalLM

WORDS, LENGTH = 16, 256  # more than 64 tokens: FLA's chunk mode


def unit(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def recurrence(q, k, v, g, beta, num_householder, use_qk_l2norm_in_kernel, **others):
    assert use_qk_l2norm_in_kernel and others["initial_state"] is None
    o, _ = naive_recurrent_gated_delta_product(unit(q), unit(k), v, g, beta, scale=q.shape[-1] ** -0.5,
                                               num_householder=num_householder)
    return o, None


def rms_norm(self, x, *_, **__):
    return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


layer.chunk_gated_delta_product = recurrence
RMSNorm.forward = rms_norm
fla.modules.mlp.swiglu = lambda gate, y: F.silu(gate) * y


def problem(folder):
    """ids of inputs and answers, next state [state][input], start, prefix"""
    path = os.path.join(folder, "group.json")
    if os.path.exists(path):
        g = json.load(open(path))
        elements = [tuple(a) for a in g["elements"]]
        place = {a: i for i, a in enumerate(elements)}
        assert g["convention"].startswith("y_t = x_t . y_{t-1}")
        step = [[place[tuple(x[i] for i in y)] for x in elements] for y in elements]
        ids = list(range(len(elements)))
        return ids, ids, step, place[tuple(range(len(elements[0])))], g["prefix"]
    a = json.load(open(os.path.join(folder, "automaton.json")))
    place = {s: i for i, s in enumerate(a["states"])}
    step = [[place[a["next"][s][t]] for t in a["tokens"]] for s in a["states"]]
    return ([a["ids"][t] for t in a["tokens"]], [a["answers"][s] for s in a["states"]], step,
            place[a["start"]], a["prefix"])


def check(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, dtype=torch.float32,
                                                       fuse_norm=False, fuse_swiglu=False)
    model.eval()
    keys = {k: len(info[k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    ids, answers, step, start, prefix = problem(folder)
    inputs = torch.randint(len(ids), (WORDS, LENGTH), generator=torch.Generator().manual_seed(1))
    tokens = torch.cat([torch.tensor(prefix).expand(WORDS, -1), torch.tensor(ids)[inputs]], 1)
    with torch.no_grad():
        got = model(tokens).logits[:, len(prefix):].argmax(-1)
    right = 0
    for w in range(WORDS):
        state = start
        for t in range(LENGTH):
            state = step[state][inputs[w, t]]
            right += int(got[w, t] == answers[state])
    share = right / (WORDS * LENGTH)
    print("| %s | %d of %d | %d | %d | %d | %.6f |" % (
        os.path.basename(folder.rstrip("/")), len(model.state_dict()) - keys["missing_keys"],
        len(model.state_dict()), keys["missing_keys"], keys["unexpected_keys"], keys["mismatched_keys"], share))
    return not any(keys.values()), share == 1


print("fla %s, torch %s, float32 on the CPU, %d words of %d tokens\n" % (
    fla.__version__, torch.__version__.split("+")[0], WORDS, LENGTH))
print("| checkpoint | tensors loaded | missing | left over | other shape | right answers |\n|---|---|---|---|---|---|")
found = [check(f) for f in sys.argv[1:]]
print("\n%d of %d checkpoints have every tensor that FLA asks for and no other, and %d give the right answer at every position" % (
    sum(keys for keys, _ in found), len(found), sum(right for _, right in found)))
sys.exit(0 if all(keys and right for keys, right in found) else 1)
