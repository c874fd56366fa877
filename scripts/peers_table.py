#!/usr/bin/env python3
"""Makes the table "deltop beside the best peer" from what scripts/peers_gpu.py wrote.

    scripts/peers_table.py OUT ... [--markdown FILE] [--json FILE] [--title TEXT] [--note TEXT ...]
    scripts/peers_table.py --deltop BENCH.json ... --peer PEER.json ... [--markdown FILE]

The second form takes results of `deltop bench` and files of one library each ({"peer", "rows"}) from wherever.
A peer gets its best: the smallest median over its variants, called eagerly or as a replayed CUDA graph. Medians of
deltop are over both of its turns. The JSON keeps quantiles, not samples. Needs Python alone.
"""
import argparse
import json
import os
import re
import statistics
import sys

# Row of the goals' table, name, done at, goal (ms).
ROWS = [
    ("1", "gdn_b8_t4096_h16", "Gated DeltaNet 8x4096x16", 0.165, 0.14),
    ("2", "gdn_b1_t32768_h16", "Gated DeltaNet 1x32768x16", 0.33, 0.26),
    ("2", "deltanet_b1_t32768_h16", "DeltaNet 1x32768x16", 0.33, 0.26),
    ("3", "gdn_b1_t32768_hk16_hv32", "Gated DeltaNet 1x32768, 16 key / 32 value heads", 0.62, 0.45),
    ("4", "gdn_b1_t131072_h8", "Gated DeltaNet 1x131072x8", 0.62, 0.52),
    ("5", "dp2_b1_t32768_h8", "DeltaProduct n = 2, 1x32768x8", 0.33, 0.26),
    ("5", "dp2g_b1_t32768_h8", "gated DeltaProduct n = 2, 1x32768x8", 0.33, 0.26),
    ("6", "dp3_b1_t32768_h8", "DeltaProduct n = 3, 1x32768x8", 0.46, 0.36),
    ("6", "dp3g_b1_t32768_h8", "gated DeltaProduct n = 3, 1x32768x8", 0.46, 0.36),
    ("7", "kda_b1_t8192_h64", "KDA 1x8192x64", 0.60, 0.25),
    ("7", "kda_b1_t32768_h16", "KDA 1x32768x16", 0.70, 0.35),
    ("8", "ssd_b1_t32768_h128_p64", "Mamba-2 1x32768x128, N = 128, P = 64", 1.5, 0.6),
    ("9", "rwkv7_b8_t16384_h64_d64", "RWKV-7 8x16384x64, 64 x 64", 5.0, 3.0),
    ("10", "gdn_b1_t32768_h6_k256_v512", "Gated DeltaNet K = 256, V = 512, 1x32768x6", None, None),
]
NAMES = {"fla": "FLA", "flashinfer": "FlashInfer", "flashqla": "FlashQLA"}
THEIRS = {"mamba2": "simple_gla", "gdeltaproduct": "deltaproduct"}


def read(path):
    with open(path) as f:
        return json.load(f)


def shape_key(s):
    """What deltop's params and a peer's shape have in common."""
    op = s["op"]
    product = op in ("deltaproduct", "gdeltaproduct")
    gates = op == "gdeltaproduct" or bool(product and s.get("gated"))
    heads = s.get("Hv") or s.get("HV") or s["H"]
    keys = heads if op in ("mamba2", "simple_gla") else s["H"]  # FLA repeats what Mamba-2 has once
    return (THEIRS.get(op, op), gates, s.get("B", 1), s["T"], keys, heads, s["K"], s["V"],
            (s.get("n") or s.get("nh") or 1) if product else 1)


def pooled(rows, mode):
    ms = [t for r in rows if r.get(mode) for t in r[mode].get("samples_ms", [])]
    if ms:
        return statistics.median(ms)
    ms = [r[mode]["median"] for r in rows if r.get(mode)]
    return statistics.median(ms) if ms else None


def least(rows, kind):
    """(ms, row, mode) of the fastest right variant."""
    found = [(r["ms"][m]["median"], r, m) for r in rows if r.get("status") == "ok"
             for m in ("eager_" + kind, "graph_" + kind) if m in r.get("ms", {})]
    return min(found, key=lambda x: x[0], default=(None, None, None))


def gather(docs, peers):
    """{shape key: {"deltop": rows, peer: rows}}"""
    out = {}
    for doc in docs:
        for r in doc.get("rows", []):
            out.setdefault(shape_key(r["params"]), {}).setdefault("deltop", []).append(r)
    for doc in peers:
        for r in doc.get("rows", []):
            if r.get("shape"):
                out.setdefault(shape_key(r["shape"]), {}).setdefault(doc["peer"], []).append(r)
    return out


def fullest(parts):
    """Of several runs the sides of one stay together: for each shape those of the run with most right rows. A peer that
    is right in another run only comes along with deltop's time there."""
    out = {}
    right = lambda rows: [r for r in rows if r.get("status") == "ok" and (r.get("warm") or r.get("ms"))]
    for key in dict.fromkeys(k for part in parts for k in part):
        most = max((part[key] for part in parts if key in part), key=lambda sides: sum(map(len, map(right, sides.values()))))
        out[key] = dict(most)
        for sides in (part[key] for part in parts if key in part and part[key] is not most):
            for peer in sides:
                if peer != "deltop" and right(sides[peer]) and not right(out[key].get(peer, [])):
                    there = pooled(right(sides.get("deltop", [])), "warm")
                    out[key][peer] = [r | dict(deltop_there=there) for r in sides[peer]]
    return out


def known():
    """Names of the rows by shape, taken from the ids: b, t, h, (hk, hv, k, v, d, p)."""
    table = {}
    for row in ROWS:
        name = row[1]
        op = {"dp": "deltaproduct", "ssd": "simple_gla"}.get(re.match(r"[a-z]+", name).group(), name.split("_")[0])
        op = "rwkv7" if name.startswith("rwkv7") else op
        at = {m.group(1): int(m.group(2)) for m in re.finditer(r"_([a-z]+)(\d+)", name)}
        H = at.get("h", at.get("hk"))
        s = dict(op=op, B=at["b"], T=at["t"], H=H, HV=at.get("hv", H), K=at.get("k", at.get("d", 128)),
                 V=at.get("v", at.get("d", at.get("p", 128))))
        if op == "deltaproduct":
            s.update(nh=int(name[2]), gated=name[3] == "g")
        table[shape_key(s)] = row
    return table


def figure(x, digits=3):
    return "" if x is None else f"{x:.{digits}g}" if x >= 100 or digits < 3 else f"{x:.3f}" if x < 10 else f"{x:.1f}"


def text(x):
    return str(x or "").replace("|", "/").replace("\n", " ")[:120]


def small(x):
    return "" if x is None else f"{x:.1e}".replace("e-0", "e-")


def named(key):
    op, gates, B, T, H, HV, K, V, n = key
    heads = f"{H}" if H == HV else f"{H}/{HV}"
    return f"{'gated ' if gates else ''}{op}{f' n = {n}' if n > 1 else ''} {B}x{T}x{heads}, {K} x {V}"


def summaries(found):
    names = known()
    order = list(names)
    rows = []
    for key in sorted(found, key=lambda k: order.index(k) if k in names else len(order)):
        sides = found[key]
        mine = [r for r in sides.get("deltop", []) if r.get("status") == "ok"]
        number, name, title, done, goal = names.get(key, ("", "", named(key), None, None))
        row = dict(row=number, id=name, text=title, done_at=done, goal=goal, deltop=None, best=None, peers=[])
        for r in mine[:1]:
            row["deltop"] = dict(
                warm=pooled(mine, "warm"), cold=pooled(mine, "cold"), error=max(r["error"] for r in mine),
                state_error=r.get("state_error"), correlated=max((r.get("stress_error") or 0) for r in mine) or None,
                kernel=r.get("kernel"), why=r.get("kernel_why"), floor=r.get("floor_ms"), bound=r.get("bound"),
                turns=[pooled([m], "warm") for m in mine],
                sm_mhz=[m.get("clock_mhz") for m in mine], watt=[m.get("watt") for m in mine],
                throttle=sorted({m.get("throttle") or "" for m in mine}),
                phases={p["name"]: p["ms"] for p in r.get("phases") or [] if isinstance(p, dict)} or r.get("phases"))
        wrong = [r for r in sides.get("deltop", []) if r.get("status") != "ok"]
        if wrong:
            row["deltop_not"] = sorted({f"{r['status']}: {r.get('why', '')}" for r in wrong})
        for peer in (p for p in sides if p != "deltop"):
            for r in sides[peer]:
                e = {k: v for k, v in (r.get("error_vs_fp64") or {}).items() if v == v}  # JSON knows no NaN; `why` says it
                row["peers"].append(dict(
                    peer=peer, variant=r.get("variant"), status=r.get("status"), why=r.get("why"), error=e.get("rel_l2"),
                    state_error=e.get("state_rel_l2"), first_call_s=r.get("first_call_s"), card=r.get("card"),
                    graph_note=r.get("graph_note"), deltop_there=r.get("deltop_there"),
                    ms={m: {k: round(v, 5) for k, v in t.items()} for m, t in (r.get("ms") or {}).items()}))
        candidates = [r | dict(peer=p) for p in sides if p != "deltop" for r in sides[p]]
        warm, who, mode = least(candidates, "warm")
        if who:
            cold = least([who], "cold")[0]
            row["best"] = dict(peer=who["peer"], variant=who["variant"], warm=warm, cold=cold, mode=mode,
                               deltop_there=who.get("deltop_there"),
                               error=(who.get("error_vs_fp64") or {}).get("rel_l2"),
                               sm_mhz=(who.get("card") or {}).get("sm_mhz"))
        if row["deltop"] and row["best"] and row["deltop"]["warm"]:
            row["times_best"] = (who.get("deltop_there") or row["deltop"]["warm"]) / warm
        rows.append(row)
    return rows


def verdict(row):
    mine, words = row["deltop"], []
    if not mine:
        return row.get("deltop_not", ["not measured"])[0][:60]
    if row.get("times_best"):
        t = row["times_best"]
        words.append(f"{100 * (1 - t):.0f} % less time" if t <= 1 else f"**{100 * (t - 1):.0f} % slower**")
    limit = row["done_at"]
    if row["id"] == "gdn_b1_t32768_h6_k256_v512":
        limit = row["best"]["warm"] / 2 if row["best"] else None
    if limit:
        over = mine["warm"] / limit - 1
        words.append("done" if over <= 0 else f"{100 * over:.0f} % above \"done at\"")
    return "; ".join(words)


def markdown(rows, runs, peers, title, notes):
    lines = [f"# {title}", ""]
    for i, run in enumerate(runs):
        env = run.get("environment") or (peers[0].get("environment") if peers else None) or {}
        about = [str(env.get(k)) for k in ("gpu", "date") if env.get(k)]
        if env.get("driver, max clocks, power limit"):
            about.append("driver, largest clocks, power limit: " + env["driver, max clocks, power limit"])
        about += [f"{k} {env[k]}" for k in ("torch", "triton", "fla-core", "flashinfer-python", "nvidia-cutlass-dsl", "flash-qla", "tilelang") if env.get(k)]
        builds = {(((d.get("environment") or {}).get("build")) or {}).get("commit") for d in run.get("deltop", [])} - {None}
        if builds:
            about.append("deltop " + ", ".join(sorted(builds)))
        first = f"Run {i + 1}: " if len(runs) > 1 else ""
        lines += [first + "; ".join(about) + ".", ""] if about else []
        if run.get("command"):
            seconds = f", {run['seconds']} s" if run.get("seconds") else ""
            lines += [f"`{run['command']}`{seconds}.", ""]
    lines += ["Times in ms, medians, bf16 inputs, float32 state. Both sides by CUDA events round each call, calls queued without waiting: deltop's warm",
              "and cold of both turns, the peer's faster of eager and CUDA graph (`how`). Cold: caches overwritten before each call.", "",
              "`done at`, `goal`: times this project set itself before the kernels were written; floor: what moving the bytes once takes, or the products; MHz, W: as NVML",
              "says them at the end of a turn. A peer's calls follow one another for 0.05 s, those of deltop's `bench` have pauses between them: where a peer draws more the card",
              "lowers its clock, and times at equal clocks would lie nearer together by the ratio of the two.", ""]
    lines += [n + "\n" for n in notes]
    lines += ["| row | shape | deltop | cold | best peer | cold | who, how | deltop against it | done at | goal | floor | error | its error | MHz, its |",
              "|---|---|---:|---:|---:|---:|---|---|---:|---:|---:|---:|---:|---|"]
    for r in rows:
        d, b = r["deltop"] or {}, r["best"] or {}
        who = f"{NAMES.get(b['peer'], b['peer'])} {b['variant']}, {b['mode'].split('_')[0]}" if b else "none"
        if b.get("deltop_there"):
            who += f" (another run: deltop {figure(b['deltop_there'])})"
        clocks = sorted({round(c) for c in d.get("sm_mhz", []) if c})
        mhz = "-".join(map(str, clocks[:1] + clocks[-1:] if len(clocks) > 1 else clocks))
        done = "half of it" if r["row"] == "10" else figure(r["done_at"])
        goal = "a third" if r["row"] == "10" else figure(r["goal"])
        lines.append(f"| {r['row']} | {r['text']} | {figure(d.get('warm'))} | {figure(d.get('cold'))} | {figure(b.get('warm'))} | "
                     f"{figure(b.get('cold'))} | {who} | {verdict(r)} | {done} | {goal} | {figure(d.get('floor'))} | {small(d.get('error'))} | "
                     f"{small(b.get('error'))} | {mhz}, {b.get('sm_mhz') or ''} |")
    lines += ["", "## Every row", "",
              "Errors are relative L2 against float64: of outputs and of end states. deltop: first and second turn.", "",
              "| shape | who | eager, turns | cold | graph | cold | error | state | MHz | W | notes |", "|---|---|---:|---:|---:|---:|---:|---:|---|---|---|"]
    for r in rows:
        d = r["deltop"]
        if d:
            c = "correlated keys " + small(d["correlated"]) if d.get("correlated") else ""
            lines.append(f"| {r['text']} | deltop, {d['kernel']} | {' / '.join(figure(t) for t in d['turns'])} | {figure(d['cold'])} | | | {small(d['error'])} | "
                         f"{small(d['state_error'])} | {' / '.join(str(round(m)) for m in d['sm_mhz'] if m)} | "
                         f"{' / '.join(str(round(w)) for w in d['watt'] if w)} | {'; '.join(x for x in (c, *d['throttle']) if x)} |")
        for n in r.get("deltop_not", []):
            lines.append(f"| {r['text']} | deltop | | | | | | | | | {text(n)} |")
        for p in r["peers"]:
            m = lambda k: figure((p["ms"].get(k) or {}).get("median"))
            card = p["card"] or {}
            there = f"in another run, deltop there {figure(p['deltop_there'])}" if p.get("deltop_there") else ""
            lines.append(f"| {r['text']} | {NAMES.get(p['peer'], p['peer'])} {p['variant']} | {m('eager_warm')} | {m('eager_cold')} | {m('graph_warm')} | "
                         f"{m('graph_cold')} | {small(p['error'])} | {small(p['state_error'])} | {card.get('sm_mhz', '')} | {card.get('watt', '')} | "
                         f"{'' if p['status'] == 'ok' else p['status'] + ' '}{text(p['why'] or p['graph_note'])}{there} |")
    for i, run in enumerate(runs):
        if run.get("order"):
            which = f", run {i + 1}" if len(runs) > 1 else ""
            lines += ["", f"## In the order of time{which}", "", "| at, s | who | shape | for, s | SM MHz | W | |", "|---:|---|---|---:|---|---|---|"]
            for o in run["order"]:
                watt = round(o["watt"]) if o.get("watt") else ""
                lines.append(f"| {o['at']} | {o['who']} | {o['id']} | {o.get('seconds', '')} | {o.get('sm_mhz') or ''} | {watt} | {text(o.get('text'))} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", nargs="*", help="folders that peers_gpu.py wrote; a shape is taken from the fullest")
    p.add_argument("--deltop", nargs="*", default=[])
    p.add_argument("--peer", nargs="*", default=[])
    p.add_argument("--markdown")
    p.add_argument("--json")
    p.add_argument("--title", default="deltop beside its peers on one GPU")
    p.add_argument("--command", action="append", help="shown as the command of a run instead of what run.json says, in the order of OUT")
    p.add_argument("--note", action="append", default=[])
    a = p.parse_args()
    runs, parts, peers = [], [], []
    for folder in a.out:
        docs = {n: read(os.path.join(folder, n)) for n in sorted(os.listdir(folder)) if n.endswith(".json")}
        runs.append(docs.pop("run.json"))
        theirs = [d for d in docs.values() if isinstance(d, dict) and "peer" in d and "rows" in d]
        parts.append(gather(runs[-1]["deltop"], theirs))
        peers += theirs
    if a.deltop or a.peer:
        theirs = [d for d in map(read, a.peer) if "peer" in d and "rows" in d]
        runs.append(dict(deltop=[read(f) for f in a.deltop]))
        parts.append(gather(runs[-1]["deltop"], theirs))
        peers += theirs
    if not runs:
        p.error("nothing to read: a folder of peers_gpu.py, --deltop or --peer")
    if a.command:
        for run, command in zip(runs, a.command):
            run["command"] = command
    rows = summaries(fullest(parts))
    text = markdown(rows, runs, peers, a.title, a.note)
    if a.markdown:
        with open(a.markdown, "w") as f:
            f.write(text)
    else:
        sys.stdout.write(text)
    if a.json:
        keep = [dict({k: v for k, v in run.items() if k != "deltop"},
                     build=((run["deltop"] or [{}])[0].get("environment") or {}).get("build")) for run in runs]
        with open(a.json, "w") as f:
            json.dump(dict(runs=keep, rows=rows), f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
