// The sets of cases that have a name. A line is a case, or several (bench/case.h).
#include "bench/case.h"

#include "core/text.h"

#include <stdio.h>
#include <string.h>

// Every kind of operation once, small: a laptop is through in seconds.
static const char *const quick[] = {"deltanet T=512 H=4 K=64 V=64",
                                    "gdn T=512 H=4 K=64 V=64",
                                    "gdn T=512 H=2 Hv=4 K=64 V=64",
                                    "deltaproduct T=256 H=4 K=64 V=64 n=2",
                                    "gdeltaproduct T=256 H=4 K=64 V=64 n=2",
                                    "kda T=256 H=4 K=64 V=64",
                                    "gla T=512 H=4 K=64 V=64",
                                    "mamba2 T=512 H=1 Hv=8 K=64 V=64",
                                    "rwkv7 T=256 H=4 K=64 V=64",
                                    "comba T=256 H=4 K=64 V=64",
                                    "gdn T=1 B=8 H=8 K=128 V=128",
                                    "conv T=1024 D=512 W=4",
                                    "rmsnorm T=1024 D=512",
                                    "l2norm T=1024 H=8 K=64",
                                    "loss T=64 D=128 vocab=4096",
                                    "erank T=16 H=4 K=64 V=64",
                                    "window T=7 K=32 n=1 W=64",
                                    NULL};

// What a change of the kernels has to hold against: the shapes of the kernel goals, every other kind
// at a length that counts, single tokens, what stands around, spectra.
#define GOALS(dtype)                                                                               \
    "gdn B=8 T=4096 H=16 K=128 V=128 " dtype, "gdn T=32768 H=16 K=128 V=128 " dtype,               \
        "deltanet T=32768 H=16 K=128 V=128 " dtype, "gdn T=32768 H=16 Hv=32 K=128 V=128 " dtype,   \
        "gdn T=131072 H=8 K=128 V=128 " dtype,                                                     \
        "deltaproduct T=32768 H=8 K=128 V=128 n=2,3 " dtype,                                       \
        "gdeltaproduct T=32768 H=8 K=128 V=128 n=2,3 " dtype,                                      \
        "kda T=8192 H=64 K=128 V=128 " dtype, "kda T=32768 H=16 K=128 V=128 " dtype,               \
        "mamba2 T=32768 H=1 Hv=128 K=128 V=64 " dtype, "gla T=32768 H=16 K=128 V=128 " dtype,      \
        "rwkv7 B=8 T=16384 H=64 K=64 V=64 " dtype, "gdn T=32768 H=6 K=256 V=512 " dtype
static const char *const kernels_gpu[] = {GOALS("dtype=bf16 device=cuda"), NULL};

static const char *const ci_gpu[] = {
    GOALS("dtype=bf16 device=cuda"),
    "gdn T=8192 H=16 K=64,96,128,256 V=128 dtype=bf16 device=cuda",
    "gdn T=1000 H=16 K=128 V=128 dtype=bf16 device=cuda",
    "gdn T=32768 H=16 K=128 V=128 docs=11 dtype=bf16 device=cuda",
    "gdn T=32768 H=16 K=128 V=128 docs=1,11 every=64 dtype=bf16 device=cuda",
    "gdn T=8192 H=16 K=128 V=128 dtype=f32,tf32 device=cuda",
    "linear T=8192 H=16 K=128 V=128 dtype=bf16 device=cuda",
    "gla T=8192 H=16 K=128 V=128 dtype=bf16 device=cuda",
    "comba T=8192 H=16 K=128 V=128 dtype=bf16 device=cuda",
    "rwkv7 T=8192 H=32 K=64 V=64 dtype=bf16 device=cuda",
    "gdn B=1,64 T=1 H=16 K=128 V=128 dtype=bf16 device=cuda",
    "deltaproduct B=64 T=1 H=8 K=128 V=128 n=2 dtype=bf16 device=cuda",
    "rwkv7 B=64 T=1 H=32 K=64 V=64 dtype=bf16 device=cuda",
    "conv T=32768 D=2048 W=4 dtype=bf16 device=cuda",
    "rmsnorm T=32768 D=1024 dtype=bf16 device=cuda",
    "l2norm T=32768 H=8 K=128 dtype=bf16 device=cuda",
    "layernorm T=32768 D=1024 dtype=bf16 device=cuda",
    "loss T=8192 D=1024 vocab=32000 dtype=bf16 device=cuda",
    "erank T=512 H=8 K=64,128 V=128 dtype=f32 device=cuda",
    "window T=512 K=64,128 n=1 W=128 dtype=f32 device=cuda",
    NULL};

static const char *const ci_cpu[] = {"linear T=1024 H=4 K=64 V=64",
                                     "gla T=1024 H=4 K=64 V=64",
                                     "mamba2 T=1024 H=1 Hv=16 K=128 V=64",
                                     "deltanet T=1024 H=4 K=64,128 V=128",
                                     "gdn T=1024 H=4 K=64,128 V=128",
                                     "gdn T=1024 H=2 Hv=8 K=64 V=64",
                                     "gdn T=1024 H=4 K=64 V=64 form=step,chunk",
                                     "gdn T=1024 H=4 K=64 V=64 docs=7 every=64",
                                     "gdn T=512 H=4 K=64 V=64 dtype=f64",
                                     "deltaproduct T=512 H=4 K=64 V=64 n=2,3",
                                     "gdeltaproduct T=512 H=4 K=64 V=64 n=2,3",
                                     "kda T=512 H=4 K=64,128 V=64",
                                     "comba T=512 H=4 K=64 V=64",
                                     "rwkv7 T=512 H=8 K=64 V=64",
                                     "gdn B=1,16 T=1 H=8 K=128 V=128",
                                     "conv T=4096 D=1024 W=4",
                                     "rmsnorm T=4096 D=1024",
                                     "l2norm T=4096 H=8 K=128",
                                     "layernorm T=4096 D=1024",
                                     "loss T=128 D=256 vocab=8192",
                                     "erank T=32 H=4 K=64,128 V=64",
                                     "window T=4 K=64,128 n=1 W=32,256",
                                     NULL};

// Shapes of the papers' own figures: DeltaProduct fig. 4, Gated DeltaNet fig. 3, RWKV-7's 16k.
#define DP_FIG4 "deltaproduct T=2048,4096,8192,16384,32768 H=8 K=128 V=128 n=1,2,3 beta=2"
#define GDN_FIG3                                                                                   \
    "gdn B=8 T=2048 H=6 K=256 V=512", "gdn B=4 T=4096 H=6 K=256 V=512",                            \
        "gdn B=2 T=8192 H=6 K=256 V=512", "gdn B=1 T=16384 H=6 K=256 V=512"
#define RWKV7_16K "rwkv7 B=8 T=16384 H=64 K=64 V=64"
static const char *const paper[] = {DP_FIG4, GDN_FIG3, RWKV7_16K, NULL};
static const char *const dp_fig4[] = {DP_FIG4, NULL};
static const char *const gdn_fig3[] = {GDN_FIG3, NULL};
static const char *const rwkv7_16k[] = {RWKV7_16K, NULL};

// Published by the peers (B, T, heads, size), each list under the peer's name.
static const char *const fla[] = {
    "gdn B=1 T=8192 H=96 K=128 V=128", "gdn B=2 T=16384 H=16 K=128 V=128",
    "gdn B=4 T=2048 H=16 K=128 V=128", "gdn B=4 T=4096 H=64 K=128 V=128",
    "gdn B=8 T=2048 H=32 K=256 V=256", "gdn B=8 T=1024 H=8 K=64 V=64",
    "kda B=1 T=8192 H=96 K=128 V=128", "kda B=2 T=16384 H=16 K=128 V=128",
    "kda B=4 T=4096 H=64 K=128 V=128", NULL};
static const char *const flashqla[] = {
    "gdn T=32768,16384,8192,4096,2048 H=2 Hv=8 K=128 V=128",
    "gdn T=32768,16384,8192,4096,2048 H=4 Hv=16 K=128 V=128",
    "gdn T=32768,16384,8192,4096,2048 H=16 Hv=16,32,64 K=128 V=128",
    "gdn T=32768,8192 H=8 Hv=24,32 K=128 V=128",
    "gdn T=32768,8192 H=32 Hv=32 K=128 V=128",
    "gdn T=8192 B=4 H=16 Hv=16,64 K=128 V=128",
    "gdn T=4096 B=8 H=16 Hv=16,32,64 K=128 V=128",
    "gdn T=2048 B=4 H=16 K=128 V=128",
    "gdn T=1024 B=8 H=16 K=128 V=128",
    NULL};
static const char *const flashinfer[] = {
    "gdn T=65536,32768,16384,8192,4096,2048 H=2 Hv=8 K=128 V=128",
    "gdn T=65536,32768,16384,8192,4096,2048 H=16 Hv=16,64 K=128 V=128",
    "gdn T=8192 B=8,16,32 H=16 K=128 V=128", NULL};
static const char *const flashkda[] = {
    "kda T=8192 H=64,96 K=128 V=128", "kda B=8 T=1024 H=64,96 K=128 V=128",
    "kda B=1,2 T=512,1024,2048,4096,8192,16384 H=64 K=128 V=128", NULL};

static const char *const spectra[] = {"erank T=32 H=8 K=32,64,128 V=64",
                                      "erank T=16 H=4 K=128 V=128", "erank T=4 H=2 K=256 V=256",
                                      "window T=4 K=64,128 n=1,2 W=16,128,512", NULL};
static const char *const models[] = {"model T=512,2048", NULL};

const bench_suite bench_suites[] = {
    {"quick", "every kind of operation once, small", quick, 8, true},
    {"ci", "what a change has to hold against; on a GPU the kernel goals as well", ci_cpu, 50,
     true},
    {"ci-gpu", "what `ci` is with --device cuda", ci_gpu, 120, false},
    {"kernels", "the shapes of the kernel goals", kernels_gpu, 120, false},
    {"paper", "shapes of the papers' figures: dp-fig4, gdn-fig3, rwkv7-16k", paper, 600, false},
    {"dp-fig4", "DeltaProduct, figure 4", dp_fig4, 240, false},
    {"gdn-fig3", "Gated DeltaNet, figure 3", gdn_fig3, 240, false},
    {"rwkv7-16k", "RWKV-7 at 16k", rwkv7_16k, 120, false},
    {"fla", "shapes that FLA publishes", fla, 600, false},
    {"flashqla", "shapes that FlashQLA publishes", flashqla, 600, false},
    {"flashinfer", "shapes that FlashInfer publishes", flashinfer, 600, false},
    {"flashkda", "shapes that FlashKDA and cuLA publish", flashkda, 600, false},
    {"spectra", "singular values and window spectra", spectra, 60, false},
    {"model", "a whole model's losses (--model)", models, 60, false},
    {"shapes", "the operations of a model in its own sizes (--model)", NULL, 5, true},
};
const size_t n_bench_suites = sizeof bench_suites / sizeof *bench_suites;

const bench_suite *bench_suite_find(const char *name, err *e) {
    char all[512] = "";
    for (size_t i = 0; i < n_bench_suites; i++) {
        if (strcmp(bench_suites[i].name, name) == 0)
            return &bench_suites[i];
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "",
                 bench_suites[i].name);
    }
    err_set(e, ERR_USAGE, "option --suite: \"%s\" is not known; there are %s", text_show(name),
            all);
    return NULL;
}
