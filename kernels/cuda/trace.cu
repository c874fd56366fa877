#include "kernels/cuda/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct span {
    const char *name;
    cudaEvent_t from, to;
    int depth;
    double host;   // of the last operation of a block: seconds until it was in the stream
    long launches; // of the block
};

struct trace {
    span *v;
    size_t n, cap;
    int depth;
    bool blocks;   // alone
    double began;  // the host's time when a block began
    long launched; // and the kernels before it
};

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void trace_open(cuda_backend *c) {
    const char *on = getenv("DELTOP_CUDA_TRACE");
    if (!on || (*on != '1' && *on != '2'))
        return;
    c->spans = (trace *)calloc(1, sizeof *c->spans);
    if (c->spans)
        c->spans->blocks = *on == '2';
}

// The first and the last operation of a block that ends in losses.
static const char first_of_block[] = "embed", last_of_block[] = "losses";

traced::traced(backend *be, const char *name) : c(of(be)), at(-1) {
    trace *t = c->spans;
    if (t && t->blocks && strcmp(name, first_of_block) != 0 && strcmp(name, last_of_block) != 0)
        return;
    if (!t || !mem_grow((void **)&t->v, &t->cap, t->n + 1, sizeof *t->v, "a trace", NULL))
        return;
    span s = {name, NULL, NULL, t->depth, 0, 0};
    if (cudaEventCreate(&s.from) != cudaSuccess || cudaEventCreate(&s.to) != cudaSuccess)
        return;
    cudaEventRecord(s.from, c->stream);
    at = (int)t->n;
    t->v[t->n++] = s;
    t->depth++;
    if (strcmp(name, first_of_block) == 0) {
        t->began = seconds();
        t->launched = c->launches;
    }
}

void trace_queued(cuda_backend *c) {
    trace *t = c->spans;
    for (size_t i = t ? t->n : 0; i-- > 0;)
        if (strcmp(t->v[i].name, last_of_block) == 0) {
            t->v[i].host = seconds() - t->began;
            t->v[i].launches = c->launches - t->launched;
            return;
        }
}

traced::~traced() {
    if (at < 0)
        return;
    cudaEventRecord(c->spans->v[at].to, c->stream);
    c->spans->depth--;
}

static double between(const span *a, cudaEvent_t to) {
    float ms = 0;
    return cudaEventElapsedTime(&ms, a->from, to) == cudaSuccess ? (double)ms : 0;
}

// A block runs from the embedding to the losses; the host's part follows until the next one begins.
static void print_blocks(const trace *t) {
    const span *from = NULL, *to = NULL;
    auto say = [&](const span *next) {
        if (!from || !to)
            return;
        fprintf(stderr, "cuda block %.3f ms", between(from, to->to));
        if (next)
            fprintf(stderr, ", %.3f ms to the next", between(from, next->from));
        fprintf(stderr, "; host %.3f ms, %ld launches\n", 1e3 * to->host, to->launches);
    };
    for (size_t i = 0; i < t->n; i++) {
        const span *s = &t->v[i];
        if (s->depth > 0)
            continue;
        if (strcmp(s->name, first_of_block) == 0 && (!from || to)) {
            say(s);
            from = s;
            to = NULL;
        } else if (from && strcmp(s->name, last_of_block) == 0) {
            to = s;
        }
    }
    say(NULL);
}

void trace_print_and_close(cuda_backend *c) {
    trace *t = c->spans;
    if (!t)
        return;
    cudaStreamSynchronize(c->stream);
    print_blocks(t);
    double total = 0;
    for (size_t i = 0; i < t->n && !t->blocks; i++) {
        const char *name = t->v[i].name;
        if (!name)
            continue;
        double sum = 0;
        long n = 0;
        int depth = t->v[i].depth;
        for (size_t j = i; j < t->n; j++) {
            span *s = &t->v[j];
            float ms = 0;
            if (!s->name || strcmp(s->name, name) != 0)
                continue;
            s->name = j == i ? s->name : NULL;
            if (cudaEventElapsedTime(&ms, s->from, s->to) == cudaSuccess)
                sum += ms;
            n++;
        }
        if (depth == 0)
            total += sum;
        fprintf(stderr, "cuda %s%-28s %9.3f ms %7ld times\n", depth ? "  " : "", name, sum, n);
    }
    if (!t->blocks)
        fprintf(stderr, "cuda %-28s %9.3f ms\n", "all operations", total);
    for (size_t i = 0; i < t->n; i++) {
        cudaEventDestroy(t->v[i].from);
        cudaEventDestroy(t->v[i].to);
    }
    free(t->v);
    free(t);
    c->spans = NULL;
}
