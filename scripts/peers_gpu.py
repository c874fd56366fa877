#!/usr/bin/env python3
"""Times deltop's kernels beside those of FLA, FlashInfer and FlashQLA on one GPU, in turns: for every shape deltop,
then the peers' variants in rounds, then deltop again. Shapes come in order of importance, and what was measured is
written at once: a run that is ended early has lost nothing but the step it was in.

    scripts/peers_gpu.py OUT [--deltop ./deltop] [--only ID ...] [--peers fla flashinfer] [--jobs N]
                         [--time-limit SECONDS]

Needs PyTorch, Triton and the peers themselves (flash-linear-attention, flashinfer-python; flash-qla, which wants
another apache-tvm-ffi than flashinfer-python and so a run of its own, `--peers flashqla`); deltop is a process of
its own and is measured by `deltop bench`, with its gate. Writes OUT/run.json (deltop's results, order in time,
environment) and OUT/fla.json, OUT/flashinfer.json, which `deltop bench --external` reads. scripts/peers_table.py
makes the table. Where a peer's kernel leaves the GPU unusable, the shapes behind it go into OUT-again. Every row of a
peer is compared with a float64 recurrence (all tokens, three heads) before it is timed: eagerly and as replays of a
CUDA graph, with warm caches and with 256 MiB overwritten before each call.
"""
import argparse
import gc
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import torch
import triton

from peers_inputs import SHAPES, errors, make_inputs, reference

FLUSH = 256 << 20

# Peers: (name, call); a call gives outputs [B, T, HV, V] and end states --------------------------------------------

def fla_variants(s, x):
    op, end = s["op"], dict(output_final_state=True)
    if op == "deltanet":
        from fla.ops.delta_rule import chunk_delta_rule as f
        return [("triton", lambda: f(x["q"], x["k"], x["v"], x["beta"], **end))]
    if op == "gdn":
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule as f
        return [("triton", lambda: f(x["q"], x["k"], x["v"], x["g"], x["beta"], **end))]
    if op == "deltaproduct":
        from fla.ops.gated_delta_product import chunk_gated_delta_product as f
        return [("triton", lambda: f(x["q"], x["k"], x["v"], x["g"], x["beta"], s["nh"], **end))]
    if op == "kda":
        from fla.ops.kda import chunk_kda as f
        return [("bounded gate", lambda: f(x["q"], x["k"], x["v"], x["g"], x["beta"], safe_gate=True,
                                           lower_bound=-5.0, **end))]
    if op == "simple_gla":
        from fla.ops.simple_gla import chunk_simple_gla as f, fused_chunk_simple_gla as f2
        return [("triton", lambda: f(x["q"], x["k"], x["v"], x["g"], **end)),
                ("fused chunk", lambda: f2(x["q"], x["k"], x["v"], x["g"], **end))]
    from fla.ops.rwkv7 import chunk_rwkv7 as f
    args = (x["q"], x["g"], x["k"], x["v"], x["a"], x["b"])
    return [("chunk 64", lambda: f(*args, scale=1.0, safe_gate=True, lower_bound=-0.6065306597126334, chunk_size=64,
                                   **end)),
            ("chunk 16", lambda: f(*args, scale=1.0, chunk_size=16, **end))]


def plain_rows(s, x):
    """DeltaProduct as the plain delta rule over T n rows: a zero query on all but a token's last one, its gate on the
    first. Heads of every sequence stay together: q, k, v, beta, logarithm of the gate or None, rows of a sequence."""
    n = s.get("nh", 1)
    q, g = x["q"], x["g"]
    if n > 1:
        q = torch.zeros_like(x["k"])
        q[:, n - 1::n] = x["q"]
        if g is not None:
            g = torch.zeros_like(x["beta"])
            g[:, ::n] = x["g"]
    return q, x["k"], x["v"], x["beta"], g, s["T"] * n


def flashinfer_variants(s, x):
    """Its gates are factors, not logarithms; its states V x K. DeltaProduct goes as plain rows, which is faster than
    its own DeltaProduct kernel."""
    from flashinfer.gdn_prefill import chunk_gated_delta_rule as f
    q, k, v, beta, g, L = plain_rows(s, x)
    B, HV, n = s["B"], v.shape[2], s.get("nh", 1)
    alpha = None if g is None else g.exp()
    q, k, v, beta, alpha = (None if t is None else t.reshape(B * L, *t.shape[2:]) for t in (q, k, v, beta, alpha))
    cu = torch.arange(0, B * L + 1, L, dtype=torch.int64, device=v.device)
    state = torch.empty(B, HV, 128, 128, dtype=torch.float32, device=v.device)
    out = torch.empty_like(v)

    def call():
        f(q, k, v, g=alpha, beta=beta, initial_state=None, output_final_state=True, cu_seqlens=cu, output=out,
          output_state=state, use_cp="auto", backend="flashinfer", max_seqlen=L)
        return out.view(B, L, HV, 128)[:, n - 1::n], state

    return [("as plain rows" if n > 1 else "auto", call)]


def flashqla_variants(s, x):
    """It splits a sequence only when it is told lengths."""
    from flash_qla import chunk_gated_delta_rule_fwd as f
    q, k, v, beta, g, L = plain_rows(s, x)
    B, HV, n = s["B"], v.shape[2], s.get("nh", 1)
    g = torch.zeros_like(beta) if g is None else g
    q, k, v, g, beta = (t.reshape(1, B * L, *t.shape[2:]) for t in (q, k, v, g, beta))
    cu = torch.arange(0, B * L + 1, L, dtype=torch.int32, device=v.device)

    def call():
        _, _, out, _, state, *_ = f(q, k, v, g, beta, scale=128**-0.5, output_final_state=True, cu_seqlens=cu)
        return out.reshape(B, L, HV, 128)[:, n - 1::n], state

    return [("as plain rows" if n > 1 else "auto", call)]


PEERS = {"flashinfer": flashinfer_variants, "flashqla": flashqla_variants, "fla": fla_variants}


def takes(peer, s, every):
    if peer == "fla":
        return every or s.get("fla", False)
    return s["op"] in ("gdn", "deltanet", "deltaproduct") and s["K"] == s["V"] == 128


# Measuring ---------------------------------------------------------------------------------------------------------

class Card:
    def __init__(self):
        try:
            import pynvml
            pynvml.nvmlInit()
            self.nvml, self.device = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
        except Exception:
            self.nvml = None

    def read(self):
        if self.nvml is None:
            return {}
        n, d = self.nvml, self.device
        return dict(sm_mhz=n.nvmlDeviceGetClockInfo(d, n.NVML_CLOCK_SM), watt=round(n.nvmlDeviceGetPowerUsage(d) / 1e3),
                    celsius=n.nvmlDeviceGetTemperature(d, n.NVML_TEMPERATURE_GPU),
                    throttle=hex(n.nvmlDeviceGetCurrentClocksThrottleReasons(d)))


def samples(call, runs, flush, card):
    """Calls queued without waiting, each between two events; `flush`: a buffer overwritten before each."""
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(runs)]
    for begin, end in marks:
        if flush is not None:
            flush.zero_()
        begin.record()
        call()
        end.record()
    seen = card.read()  # while the queue is busy
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in marks], seen


def summary(ms):
    s = sorted(ms)
    at = lambda share: s[min(len(s) - 1, int(share * len(s)))]
    return dict(median=statistics.median(s), min=s[0], p20=at(0.2), p80=at(0.8), max=s[-1], n=len(s))


def capture(call):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()
    graph.replay()
    torch.cuda.synchronize()
    return graph, kept


def short_tuning(calls):
    """Triton's autotuner takes an eighth of a second for each of hundreds of variants; this takes the median of a
    few calls."""
    def bench(call, quantiles=None, **_):
        call()
        torch.cuda.synchronize()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
        marks[0].record()
        for m in marks[1:]:
            call()
            m.record()
        torch.cuda.synchronize()
        ms = sorted(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))
        return [ms[len(ms) // 2], ms[0], ms[-1]]
    triton.runtime.driver.active.get_benchmarker = lambda: bench


def retune():
    """FLA's tuning keys leave out lengths and heads: without this a shape runs with what was best for an earlier one."""
    for x in gc.get_objects():
        if issubclass(type(x), triton.runtime.Autotuner):
            x.cache.clear()


def compile_share(share, seen):
    """From here on Triton launches nothing. Of the variants its autotuner would try it compiles those whose turn is
    `share` = "i/n", which n processes at once do n times as fast; later processes find them in Triton's cache. Who has
    the first variant also has the C compiler make what launches them all."""
    i, n = map(int, share.split("/"))
    turns = itertools.count()
    one = triton.runtime.JITFunction.run
    triton.runtime.JITFunction.run = lambda self, *args, **kw: one(self, *args, **dict(kw, warmup=True))

    def run(self, *args, **kw):
        self.nargs = dict(zip(self.arg_names, args))
        for k, config in enumerate(self.prune_configs(kw)):
            if next(turns) % n == i:
                try:
                    kernel = self.fn.run(*args, **kw, **config.all_kwargs())
                    if k == 0:
                        triton.runtime.driver.active.launcher_cls(kernel.src, kernel.metadata)
                except Exception as e:  # one that does not compile is none that tuning will choose
                    seen.append(type(e).__name__)
    triton.runtime.Autotuner.run = run
    triton.knobs.compilation.listener = lambda cache_hit, **_: seen.append("found" if cache_hit else "compiled")


def compile_one_share(args):
    """The work of one of --jobs processes. FLA's kernels do not depend on the length, which is short here; FlashQLA
    takes whole kernels from a cache of its own and chooses them by length: every n-th shape runs once."""
    start, seen = time.time(), []
    i, n = map(int, args.share.split("/"))
    if "flashqla" in args.peers:
        for s in [s for s in args.shapes if takes("flashqla", s, args.every)][i::n]:
            for _, call in flashqla_variants(s, make_inputs(s, args.device)):
                call()
            torch.cuda.synchronize()
            print(f"share {i} of {n}, {s['id']}: FlashQLA after {time.time() - start:.1f} s", flush=True)
    if "fla" not in args.peers:
        return
    compile_share(args.share, seen)
    for s in args.shapes:
        if takes("fla", s, args.every):
            s = dict(s, T=min(s["T"], 1024))
            for _, call in fla_variants(s, make_inputs(s, args.device)):
                call()
            if i == 0:
                count = {k: seen.count(k) for k in sorted(set(seen))}
                print(f"share 0 of {n}, {s['id']}: FLA {count} after {time.time() - start:.1f} s", flush=True)


def deltop_axes(s, cuda):
    op = {"simple_gla": "mamba2", "deltaproduct": "gdeltaproduct" if s.get("gated") else "deltaproduct"}
    axes = dict(op=op.get(s["op"], s["op"]), B=s["B"], T=s["T"], H=s["H"], Hv=s.get("HV", s["H"]), K=s["K"], V=s["V"])
    if s["op"] == "simple_gla":
        axes["H"] = 1  # Mamba-2: one query and key for all heads; FLA has no groups and gets them repeated
    if "nh" in s:
        axes.update(n=s["nh"], beta=s.get("beta_max", 1))
    return dict(axes, **(dict(dtype="bf16", device="cuda") if cuda else dict(dtype="f32", device="cpu")))


class Run:
    def __init__(self, args):
        self.args, self.card, self.start = args, Card(), time.time()
        self.cuda = torch.cuda.is_available()
        self.flush = torch.empty(FLUSH // 4, dtype=torch.int32, device="cuda") if self.cuda else None
        self.doc = dict(command=" ".join(sys.argv), environment=self.environment(), deltop=[], order=[])
        self.peers = {p: dict(peer=p, environment=self.doc["environment"], rows=[]) for p in args.peers}
        self.step, self.began, self.saving = "start", time.time(), threading.Lock()
        self.suspect = None  # the peer that left the GPU unusable
        self.jobs = []
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        """A kernel that never ends holds Python inside a wait: what was measured is written, and the process ends. So
        it does where the time is up in the middle of a step."""
        while time.time() - self.began < self.args.step_timeout and self.left() > -self.args.grace:
            time.sleep(0.5)
        self.doc["ended"] = f"{self.step}: {'no time' if self.left() < 0 else 'no answer'}"
        print(self.doc["ended"], flush=True)
        for job in self.jobs:
            job.kill()
        for _ in range(5):
            try:
                self.save()
                break
            except RuntimeError:  # the other thread is adding to what is being written
                time.sleep(0.1)
        os._exit(3)

    def compile_ahead(self):
        """Has FLA's and FlashQLA's kernels compiled by --jobs processes into the caches of Triton and TileLang, while
        this one compiles FlashInfer's, which it keeps. What is missing then is compiled in its turn."""
        a, since, codes = self.args, self.begin("kernels ahead"), []
        others = [p for p in a.peers if p != "flashinfer"]
        self.jobs = [subprocess.Popen([sys.executable, *sys.argv, "--share", f"{i}/{a.jobs}"])
                     for i in range(a.jobs if others else 0)]
        try:
            self.compile_flashinfer()
            for job in self.jobs:
                try:
                    job.wait(max(0.01, a.jobs_timeout - (time.time() - since)))
                except subprocess.TimeoutExpired:
                    job.kill()
                codes.append(job.wait())
        finally:
            for job in self.jobs:
                job.kill()
        torch.cuda.empty_cache()
        self.note("kernels ahead", dict(id=""), since, dict(text=f"{a.jobs} processes, exit codes {sorted(set(codes))}"))

    def compile_flashinfer(self):
        try:
            for s in self.args.shapes if "flashinfer" in self.args.peers else []:
                if takes("flashinfer", s, self.args.every):
                    for _, call in flashinfer_variants(s, make_inputs(s, "cuda")):
                        call()
                    torch.cuda.synchronize()
                    print(f"{time.time() - self.start:8.2f} s FlashInfer's kernels for {s['id']}", flush=True)
            if "fla" in self.args.peers:
                import fla.ops  # takes seconds, too
        except Exception as e:  # comes again, and into its row, when its turn is there
            self.failed("flashinfer")
            print(f"kernels ahead: {type(e).__name__}: {e}"[:300], flush=True)

    def lost(self):
        """Whether an error left the GPU unusable to this process."""
        try:
            torch.cuda.synchronize()
            return False
        except Exception:
            return True

    def failed(self, peer):
        if self.suspect is None and self.lost():
            self.suspect = peer

    def begin(self, step):
        self.step, self.began = step, time.time()
        return self.began

    def environment(self):
        from importlib.metadata import version
        env = dict(date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), torch=torch.__version__,
                   cuda=torch.version.cuda, triton=triton.__version__)
        for name in ("flash-linear-attention", "fla-core", "flashinfer-python", "nvidia-cutlass-dsl", "flash-qla", "tilelang"):
            try:
                env[name] = version(name)
            except Exception:
                pass
        if self.cuda:
            p = torch.cuda.get_device_properties(0)
            env.update(gpu=p.name, sm_count=p.multi_processor_count)
        try:
            ask = "--query-gpu=driver_version,clocks.max.sm,clocks.max.memory,power.limit"
            env["driver, max clocks, power limit"] = subprocess.run(
                ["nvidia-smi", ask, "--format=csv,noheader"], capture_output=True, text=True, timeout=20).stdout.strip()
        except Exception:
            pass
        return env

    def left(self):
        return self.args.time_limit - (time.time() - self.start)

    def note(self, who, shape, since, seen):
        row = dict(at=round(since - self.start, 2), seconds=round(time.time() - since, 2), who=who, id=shape["id"], **seen)
        self.doc["order"].append(row)
        self.doc["seconds"] = round(time.time() - self.start, 1)
        print(f"{row['at']:8.2f} s {who:<28}{shape['id']:<30}{row['seconds']:6.2f} s  {seen.get('sm_mhz', '?')} MHz "
              f"{seen.get('text', '')}", flush=True)
        self.save()

    def save(self):
        with self.saving:
            os.makedirs(self.args.out, exist_ok=True)
            for name, doc in [("run", self.doc), *self.peers.items()]:
                if "rows" in doc:  # graphs are kept in rows while they are measured
                    doc = dict(doc, rows=[{k: v for k, v in r.items() if k != "keep"} for r in doc["rows"]])
                path = os.path.join(self.args.out, name + ".json")
                with open(path + ".part", "w") as f:
                    json.dump(doc, f, indent=None, separators=(",", ":"))
                os.replace(path + ".part", path)

    def deltop(self, s, turn):
        since, a = self.begin(f"deltop {s['id']}"), self.args
        command = [a.deltop, "bench", "--quiet", "--budget", str(a.budget), "--rounds", str(a.deltop_rounds)]
        for name, value in deltop_axes(s, self.cuda).items():
            command += ["--axis", f"{name}={value}"]
        seen, done, why = {}, None, None
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = subprocess.run([*command, "--out", folder], capture_output=True, text=True, timeout=a.deltop_timeout)
                with open(os.path.join(folder, "bench.json")) as f:
                    doc = json.load(f)
                doc.update(id=s["id"], turn=turn, exit_code=done.returncode)
                for row in doc["rows"]:
                    seen = dict(sm_mhz=row["clock_mhz"], watt=row["watt"], celsius=row["celsius"], throttle=row["throttle"])
                    for mode in ("warm", "cold"):
                        if row.get(mode):
                            row[mode] = {k: v for k, v in row[mode].items() if k not in ("cycles", "rounds")}
                    t = row.get("warm") or {}
                    seen["text"] = f"{t.get('median', row['status'])}"
                self.doc["deltop"].append(doc)
            except subprocess.TimeoutExpired:
                why = f"no answer within {a.deltop_timeout} s"
            except (OSError, ValueError) as e:
                why = f"{e}; {done.stderr[-300:]}" if done else str(e)
            if why:
                self.doc["deltop"].append(dict(id=s["id"], turn=turn, rows=[], why=why))
                seen = dict(text=why)
        self.note(f"deltop {turn}", s, since, seen)

    def prepare(self, s):
        """Inputs, reference and every variant once: compilation, tuning, errors. The calls that are right."""
        live, since = [], self.begin(f"inputs of {s['id']}")
        peers = [p for p in self.args.peers if takes(p, s, self.args.every)]
        if not peers or not self.cuda:
            return live
        x = make_inputs(s, "cuda")
        ref = reference(s, x)
        torch.cuda.synchronize()
        self.note("inputs, float64", s, since, {})
        retune()
        for peer in peers:
            try:
                variants = PEERS[peer](s, x)
            except Exception as e:
                variants, why = [], f"{type(e).__name__}: {e}"[:500]
                self.peers[peer]["rows"].append(dict(id=s["id"], shape=s, variant="-", status="failed", why=why))
                self.note(f"{peer} is not there", s, time.time(), dict(text=why))
            for name, call in variants:
                row = dict(id=s["id"], peer=peer, variant=name, shape=s, status="ok", ms={}, samples_ms={})
                self.peers[peer]["rows"].append(row)
                since = self.begin(f"{peer} {name} {s['id']}")
                try:
                    call()
                    torch.cuda.synchronize()
                    row["first_call_s"] = round(time.time() - since, 2)
                    row["error_vs_fp64"] = e = errors(ref, *call(), peer == "flashinfer")
                    if not e["finite"] or not e["rel_l2"] < 2e-2:
                        row.update(status="wrong", why=f"relative L2 error {e['rel_l2']:.2e}")
                    else:
                        modes = [("eager", call)]
                        if not self.args.no_graph:
                            try:
                                graph, kept = capture(call)
                                again = errors(ref, kept[0], None, False)["rel_l2"]
                                if not again < max(2e-2, 2 * e["rel_l2"]):
                                    raise RuntimeError(f"a replay is wrong: {again:.2e}")
                                modes.append(("graph", graph.replay))
                                row["keep"] = (graph, kept)
                            except Exception as g:
                                row["graph_note"] = f"{type(g).__name__}: {g}"[:300]
                        live.append((row, modes))
                except Exception as e:
                    self.failed(peer)
                    row.update(status="failed", why=f"{type(e).__name__}: {e}"[:500])
                self.note(f"{peer} {name}: first call", s, since, dict(text=row.get("why") or row.get("graph_note") or
                                                                       f"error {row['error_vs_fp64']['rel_l2']:.2e}"))
        return live

    def measure(self, s, live):
        for turn in range(self.args.rounds):
            for row, modes in live:
                since, seen = self.begin(f"{row['peer']} {row['variant']} {s['id']}"), {}
                for mode, call in modes:
                    try:
                        each, _ = samples(call, 3, None, self.card)
                        runs = int(min(100, max(8, self.args.seconds / (1e-3 * statistics.median(each)))))
                        for kind, flush in (("warm", None), ("cold", self.flush)):
                            ms, seen = samples(call, runs, flush, self.card)
                            row["samples_ms"].setdefault(f"{mode}_{kind}", []).extend(round(t, 5) for t in ms)
                    except Exception as e:
                        self.failed(row["peer"])
                        row.update(status="failed", why=f"{type(e).__name__}: {e}"[:500])
                row["ms"] = {m: summary(v) for m, v in row["samples_ms"].items()}
                row["card"] = seen
                text = " ".join(f"{m} {v['median']:.3f}" for m, v in row["ms"].items())
                self.note(f"{row['peer']} {row['variant']} {turn + 1}", s, since, dict(seen, text=text))

    def start_over(self, rest):
        """The shapes `rest` in a new process and in a folder beside; a peer that has lost the GPU before stays out."""
        a = self.args
        peers = [p for p in a.peers if not (a.out.endswith("-again") and p == self.suspect)]
        self.doc["ended"] = f"{self.suspect}: an error left the GPU unusable"
        print(f"{self.doc['ended']} to this process, {len(rest)} shapes in a new one", flush=True)
        self.save()
        command = [a.out + "-again" if x == a.out else x for x in sys.argv]
        os.execv(sys.executable, [sys.executable, *command, "--time-limit", f"{self.left():.0f}", "--peers", *peers,
                                  "--only", *rest])

    def all(self):
        ids, begun = [s["id"] for s in self.args.shapes], time.time()
        for i, s in enumerate(self.args.shapes):
            if self.left() < self.args.reserve:
                print(s["id"], "left out: no time", flush=True)
                self.doc["order"].append(dict(who="left out", id=s["id"], at=round(time.time() - self.start, 2)))
                continue
            live, self.doc["at"] = [], s["id"]
            try:
                try:
                    live = self.prepare(s)
                except Exception as e:  # of the inputs or of the reference: deltop makes its own
                    self.note("inputs, float64", s, self.began, dict(text=f"{type(e).__name__}: {e}"[:300]))
                self.deltop(s, 1)
                self.measure(s, live)
                # Late: a second turn here would cost a later shape its first one. The first shapes load libraries.
                pace = (time.time() - begun) / (i + 1)
                if i < 3 or self.left() > pace * (len(ids) - 1 - i):
                    self.deltop(s, 2)
            finally:
                for row, _ in live:
                    row.pop("keep", None)
                live = None
                self.save()
            if self.cuda:
                if not self.lost():
                    torch.cuda.empty_cache()
                elif ids[i + 1:]:
                    self.start_over(ids[i + 1:])
        self.doc.pop("at", None)
        self.save()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--deltop", default="./deltop")
    p.add_argument("--only", nargs="*", default=[], metavar="ID", help="these shapes, in this order")
    p.add_argument("--peers", nargs="*", default=["flashinfer", "fla"], choices=list(PEERS))
    p.add_argument("--every", action="store_true", help="FLA also where FlashInfer is known to be faster")
    p.add_argument("--shapes", metavar="FILE", help="JSON: a list of shapes instead of the built-in ones")
    p.add_argument("--rounds", type=int, default=2, help="rounds of the peers between deltop's two turns")
    p.add_argument("--seconds", type=float, default=0.05, help="of one mode of a peer in a round")
    p.add_argument("--budget", type=float, default=0.6, help="seconds of one of deltop's turns")
    p.add_argument("--deltop-rounds", type=int, default=2)
    p.add_argument("--deltop-timeout", type=float, default=60)
    p.add_argument("--tuning-calls", type=int, default=0, help="calls a variant in Triton's autotuner (default: its own way)")
    p.add_argument("--jobs", type=int, default=0,
                   help="processes that compile the peers' kernels before anything is measured")
    p.add_argument("--jobs-timeout", type=float, default=1e9, help="seconds (default: until they are done)")
    p.add_argument("--share", help=argparse.SUPPRESS)
    p.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    p.add_argument("--no-graph", action="store_true")
    p.add_argument("--time-limit", type=float, default=1e9, help="seconds; deltop's second turns, then later shapes are left out")
    p.add_argument("--grace", type=float, default=5, help="seconds after the time limit that a step may still take")
    p.add_argument("--step-timeout", type=float, default=1e9, help="seconds after which a step counts as hung (default: never)")
    p.add_argument("--reserve", type=float, default=12, help="seconds that a shape needs to be begun")
    args = p.parse_args()
    if args.shapes:
        with open(args.shapes) as f:
            args.shapes = json.load(f)
    else:
        args.shapes = SHAPES
    known = {s["id"]: s for s in args.shapes}
    if set(args.only) - set(known):
        p.error(f"--only: no shape is called {', '.join(sorted(set(args.only) - set(known)))}")
    args.shapes = [known[i] for i in args.only] or args.shapes
    # What FLA would hand to other libraries when they are there stays in its own Triton kernels; tuning is not read
    # from a file.
    for name in ("FLA_FLASH_QLA", "FLA_FLASH_KDA", "FLA_TILELANG", "FLA_GLUON", "FLA_INTRACARD_CP", "FLA_CACHE_RESULTS"):
        os.environ.setdefault(name, "0")
    with torch.inference_mode():
        if args.share:
            return compile_one_share(args)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        run = Run(args)
        if args.jobs and run.cuda:
            run.compile_ahead()
            if run.lost():
                run.start_over([s["id"] for s in args.shapes])
        if args.tuning_calls and run.cuda:
            short_tuning(args.tuning_calls)
        run.all()


if __name__ == "__main__":
    main()
